#include "tools/eval/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <unordered_map>
#include <utility>

#include "api/errors.h"
#include "tools/batch/request_line.h"
#include "tools/eval/grade.h"
#include "tools/eval/score.h"
#include "tools/mailbox.h"

namespace thalweg::tools::eval {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTurn(100);

struct Finished {
  size_t item = 0;
  size_t question = 0;
  RequestOutput output = {};
};

// An item whose questions are being answered.
struct UnderWay {
  std::vector<Question> questions = {};
  std::vector<std::string> request_ids = {};
  std::vector<RequestOutput> outputs = {};
  size_t left = 0;
};

bool IsCancelled(const RequestOutput& output) {
  return std::any_of(output.outputs.begin(), output.outputs.end(),
                     [](const auto& one) { return one.finish_reason == "cancelled"; });
}

class Run {
 public:
  Run(LLM& llm, std::span<const Item> items, batch::ResultFile* results, const EvalOptions& options)
      : llm_(llm),
        items_(items),
        results_(*results),
        options_(options),
        end_(std::min(options.limit, items.size())) {}

  Result<EvalReport> Work(const StopRequests& stop,
                          const std::function<void(const EvalProgress&)>& progress) {
    TW_TRY(CheckOld());
    while (stop() == 0 && (next_ < end_ || !under_way_.empty())) {
      while (next_ < end_ && HasRoom() && stop() == 0) TW_TRY(Begin(next_++));
      TW_TRY(Collect());
      if (progress) progress({done_, static_cast<int64_t>(end_), Seconds()});
    }
    report_.stopped = next_ < end_ || !under_way_.empty();
    if (report_.stopped) TW_TRY(WindDown(stop));
    TW_TRY(results_.Sync());
    return report_;
  }

 private:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  bool HasRoom() const { return under_way_.empty() || requests_ < options_.max_in_flight; }

  // Old results must be of these items.
  Status CheckOld() const {
    int64_t known = 0;
    for (const Item& item : items_) {
      const std::optional<uint64_t> hash = results_.FindOld(item.line);
      if (!hash.has_value()) continue;
      ++known;
      if (*hash == item.hash) continue;
      return base::FailedPrecondition(fmt::format(
          "line {} of the set is not the one that {} has a score of: name a new file for the "
          "results of another set",
          item.line, results_.path().string()));
    }
    if (known == results_.old_results()) return {};
    return base::FailedPrecondition(fmt::format(
        "{} has {} scores of lines that are no items of this set (up to line {}): name a new file "
        "for the results of another set",
        results_.path().string(), results_.old_results() - known, results_.largest_old_line()));
  }

  Status Begin(size_t index) {
    const Item& item = items_[index];
    if (results_.FindOld(item.line).has_value()) {
      ++done_;
      return {};
    }
    const uint64_t seed = batch::SeedOfLine(options_.seed, item.line);
    Result<std::vector<Question>> questions = QuestionsOf(llm_, item, seed);
    if (!questions.ok()) return WriteError(item, api::ToError(questions.status()));
    UnderWay one{.questions = std::move(*questions)};
    one.left = one.questions.size();
    one.outputs.resize(one.left);
    requests_ += static_cast<int64_t>(one.left);
    UnderWay& kept = under_way_[index] = std::move(one);
    for (size_t i = 0; i < kept.questions.size(); ++i) TW_TRY(Submit(index, i, &kept));
    return {};
  }

  // A refused question is answered by its error; an engine that takes none ends the run.
  Status Submit(size_t index, size_t question, UnderWay* item) {
    const Question& q = item->questions[question];
    const Expected<std::string> id = llm_.Submit(
        q.prompt, q.params,
        [mailbox = mailbox_, index, question](const RequestOutput& output) {
          if (output.finished) mailbox->Put({index, question, output});
        },
        q.options);
    if (id.ok()) {
      item->request_ids.push_back(*id);
      return {};
    }
    if (id.error().code == ErrorCode::kFailedPrecondition) return api::ToStatus(id.error());
    mailbox_->Put({index, question, {.error = id.error()}});
    return {};
  }

  Status Collect() {
    if (under_way_.empty()) return {};
    for (Finished& finished : mailbox_->Take(kTurn)) {
      UnderWay& item = under_way_.at(finished.item);
      item.outputs[finished.question] = std::move(finished.output);
      if (--item.left == 0) TW_TRY(Finish(finished.item));
    }
    return {};
  }

  Status Finish(size_t index) {
    const UnderWay done = std::move(under_way_.at(index));
    under_way_.erase(index);
    requests_ -= static_cast<int64_t>(done.questions.size());
    if (std::any_of(done.outputs.begin(), done.outputs.end(), IsCancelled)) {
      ++report_.abandoned;  // no score: the next run makes one
      return {};
    }
    const Item& item = items_[index];
    for (const RequestOutput& output : done.outputs) {
      if (output.error.has_value()) return WriteError(item, *output.error);
    }
    return Write(ScoreLine(item, results_.run(), Grade(item, done.questions, done.outputs)));
  }

  Status WriteError(const Item& item, const Error& error) {
    return Write(ScoreErrorLine(item, results_.run(), error));
  }

  Status Write(const std::string& line) {
    ++done_;
    ++report_.scored;
    return results_.Append(line);
  }

  Status WindDown(const StopRequests& stop) {
    const double end = Seconds() + options_.grace_seconds;
    while (!under_way_.empty() && stop() < 2 && Seconds() < end) TW_TRY(Collect());
    for (const auto& [index, item] : under_way_) {
      for (const std::string& id : item.request_ids) llm_.Cancel(id);
    }
    while (!under_way_.empty()) TW_TRY(Collect());
    return {};
  }

  LLM& llm_;
  std::span<const Item> items_;
  batch::ResultFile& results_;
  const EvalOptions& options_;
  EvalReport report_;
  std::shared_ptr<Mailbox<Finished>> mailbox_ = std::make_shared<Mailbox<Finished>>();
  std::unordered_map<size_t, UnderWay> under_way_;
  size_t end_;  // of the items to be scored
  size_t next_ = 0;
  int64_t requests_ = 0;
  int64_t done_ = 0;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

Result<EvalReport> RunEval(LLM& llm, std::span<const Item> items, batch::ResultFile* results,
                           const EvalOptions& options, const StopRequests& stop,
                           const std::function<void(const EvalProgress&)>& progress) {
  return Run(llm, items, results, options).Work(stop, progress);
}

}  // namespace thalweg::tools::eval
