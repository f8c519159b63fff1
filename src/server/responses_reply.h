// The answer to a Responses request: output items, and the events under which they grow.
#pragma once

#include <string>
#include <vector>

#include "server/chat_reply.h"
#include "server/openai_json.h"

namespace thalweg::server {

class ResponsesReply final : public ChatReply {
 public:
  struct Shape {
    bool stream = false;
    std::vector<std::string> custom_tools = {};
    Json echoed = Json::object();
  };
  ResponsesReply(AnswerHead head, std::string request_id, const ChatPlan& plan, Shape shape,
                 std::vector<text::TokenOutputDecoder> decoders, const text::Tokenizer* tokenizer,
                 Metrics* metrics);

  void Begin(std::string* out) override;
  void End(std::string* out) override;
  void Fail(const ApiError& error, std::string* out) override;

 private:
  enum class Item : uint8_t { kNone, kReasoning, kMessage, kCall };

  void OnEvents(size_t index, const text::OutputEvents& events, std::string* out) override;
  void Write(const text::ReasoningText& event, std::string* out);
  void Write(const text::ContentText& event, std::string* out);
  void Write(const text::CallBegin& event, std::string* out);
  void Write(const text::CallArguments& event, std::string* out);
  void Write(const text::CallEnd& event, std::string* out);
  void Write(const text::OutputEnd& event, std::string* out);

  void OpenText(Item item, std::string* out);
  void CloseItem(std::string* out);
  void CloseText(std::string* out);
  void CloseCall(std::string* out);
  void WriteDelta(std::string_view type, std::string_view text, std::string* out);
  // An event about the item under way: type, item_id, output_index, and what `more` has.
  void SendAboutItem(std::string_view type, Json more, std::string* out);
  void Send(std::string_view type, Json event, std::string* out);
  void SendResponse(std::string_view type, std::string_view status, std::string* out);

  Json Part() const;
  Json ItemJson(std::string_view status) const;
  Json ResponseJson(std::string_view status) const;
  std::string_view EndStatus() const;

  AnswerHead head_;
  std::string request_id_;
  Shape shape_;
  Json output_ = Json::array();  // items that are complete
  Item item_ = Item::kNone;
  std::string item_id_;
  std::string text_;  // of the item
  text::CallBegin call_;
  bool custom_ = false;
  int64_t number_ = 0;  // of the next event
  Json error_;          // null: none
  std::string line_;
};

}  // namespace thalweg::server
