// A server on a real socket over a model that says what a script says, and clients for it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/fake_model.h"
#include "base/json.h"
#include "server/options.h"
#include "server/server.h"

namespace thalweg::server {

using base::Json;

struct TestAnswer {
  int status = 0;
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};

  Json json() const { return Json::parse(body); }
};

struct TestEvent {
  std::string name = {};  // of "event:"; empty: none
  std::string data = {};

  Json json() const { return Json::parse(data); }
};

using TestHeaders = std::vector<std::pair<std::string, std::string>>;

class TestServer {
 public:
  // `script` is that of a fake model (docs/server.md); the tokenizer is nano's.
  explicit TestServer(std::string_view script, ServerOptions options = Options());
  ~TestServer();

  // Any free port, one I/O thread.
  static ServerOptions Options();

  int port() const { return server_->port(); }
  Server& server() { return *server_; }
  api::FakeModel& model() { return *model_; }

  TestAnswer Get(const std::string& path, const TestHeaders& headers = {});
  TestAnswer Post(const std::string& path, const Json& body, const TestHeaders& headers = {});
  TestAnswer PostText(const std::string& path, const std::string& body,
                      const TestHeaders& headers = {});
  // The events of a stream, comments left out. `body` gets "stream": true.
  std::vector<TestEvent> Stream(const std::string& path, Json body);

  // A counter of the model (MetricsJson).
  int64_t Counter(const char* name) const;
  // Waits until nothing is under way; false after five seconds.
  bool WaitIdle() const;
  bool WaitFor(const char* counter, int64_t value) const;

 private:
  std::unique_ptr<api::FakeModel> model_;
  std::unique_ptr<Server> server_;
};

// A POST to any server of this machine.
TestAnswer PostTo(int port, const std::string& path, const std::string& body);

// Events of a text/event-stream body.
std::vector<TestEvent> ParseEvents(std::string_view body);

// A plain TCP connection.
class RawClient {
 public:
  explicit RawClient(int port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void Send(std::string_view bytes);
  // What has come when `needle` is in it, the connection ends, or five seconds are over.
  std::string ReadUntil(std::string_view needle);
  // Whether the other side ends the connection within the time.
  bool ClosedWithin(std::chrono::milliseconds time);
  void Close();
  // Takes nothing more than this from the network.
  void ShrinkReceiveBuffer(int bytes);

 private:
  // False: the end. Nothing within `time` is an empty `out`.
  bool ReadSome(std::chrono::milliseconds time, std::string* out);
  int socket_ = -1;
};

// The text of a POST request.
std::string RequestText(const std::string& path, const std::string& body,
                        const std::string& more_headers = "");

}  // namespace thalweg::server
