#include "tools/batch/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "api/errors.h"
#include "tools/batch/line_reader.h"
#include "tools/batch/request_line.h"
#include "tools/batch/result_line.h"
#include "tools/mailbox.h"

namespace thalweg::tools::batch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kTurn(100);
// Input text of requests under way: long lines are held back by their weight, not by their number.
constexpr size_t kMaxBytesUnderWay = size_t{256} << 20;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Finished {
  int64_t line = 0;
  RequestOutput output = {};
};

struct UnderWay {
  LineKey key = {};
  std::string request_id = {};
  size_t bytes = 0;
  bool token_ids = false;
};

bool IsBlank(const Line& line) {
  return !line.too_long && line.text.find_first_not_of(" \t\r") == std::string::npos;
}

bool IsCancelled(const RequestOutput& output) {
  return std::any_of(output.outputs.begin(), output.outputs.end(),
                     [](const auto& one) { return one.finish_reason == "cancelled"; });
}

class Run {
 public:
  Run(LLM& llm, LineReader reader, ResultFile* results, const BatchOptions& options)
      : llm_(llm), reader_(std::move(reader)), results_(*results), options_(options) {
    report_.errors = results->old_errors();
  }

  Result<BatchReport> Work(const StopRequests& stop,
                           const std::function<void(const BatchProgress&)>& progress) {
    while (stop() == 0 && (!at_end_ || !under_way_.empty())) {
      TW_TRY(Fill(stop));
      TW_TRY(Collect());
      if (progress) progress(Progress());
    }
    report_.stopped = !at_end_ || !under_way_.empty();
    if (report_.stopped) TW_TRY(WindDown(stop));
    TW_TRY(results_.Sync());
    if (!report_.stopped) TW_TRY(CheckOldLines());
    return report_;
  }

 private:
  bool HasRoom() const {
    return static_cast<int64_t>(under_way_.size()) < options_.max_in_flight &&
           (under_way_.empty() || bytes_under_way_ < kMaxBytesUnderWay);
  }

  Status Fill(const StopRequests& stop) {
    while (!at_end_ && HasRoom() && stop() == 0) {
      TW_ASSIGN(std::optional<Line> line, reader_.Next());
      at_end_ = !line.has_value();
      if (line.has_value() && !IsBlank(*line)) TW_TRY(TakeLine(*line));
    }
    return {};
  }

  Status TakeLine(const Line& line) {
    ++report_.lines;
    offset_ = line.end_offset;
    LineKey key{.number = line.number, .hash = line.hash};
    const Result<Json> json = Parse(line, &key.id);
    const std::optional<uint64_t> old = results_.FindOld(line.number);
    if (old.has_value()) return SkipOld(line, *old);
    if (!json.ok()) return WriteError(key, api::ToError(json.status()));
    return Submit(line, std::move(key), *json);
  }

  // The line as JSON. Ids are seen in the order of the input in every run: the first of two lines
  // with one id keeps it.
  Result<Json> Parse(const Line& line, LineId* id) {
    if (line.too_long) {
      return base::OutOfRange(
          fmt::format("the line has more than {} bytes: cut it, or raise --max-line-bytes",
                      options_.max_line_bytes));
    }
    TW_ASSIGN(Json json, ParseLine(line.text, id));
    if (!id->key.empty() && !ids_.insert(HashOf(id->value)).second) {
      return base::InvalidArgument(
          fmt::format("{} \"{}\" stands on an earlier line, too", id->key, id->value));
    }
    return json;
  }

  Status SkipOld(const Line& line, uint64_t hash) {
    ++report_.old;
    if (report_.written == 0) start_offset_ = line.end_offset;
    if (hash == line.hash) return {};
    return base::FailedPrecondition(fmt::format(
        "line {} of the input is not the one that {} has an answer to: the input was changed; "
        "name a new file for the results",
        line.number, results_.path().string()));
  }

  Status Submit(const Line& line, LineKey key, const Json& json) {
    Result<LineRequest> request = RequestOfLine(json, options_.defaults);
    if (!request.ok()) return WriteError(key, api::ToError(request.status()));
    if (!request->params.seed.has_value())
      request->params.seed = SeedOfLine(options_.seed, line.number);
    request->params.output_kind = OutputKind::kFinalOnly;
    const Expected<std::string> id = llm_.Submit(
        request->prompt, request->params,
        [mailbox = mailbox_, number = line.number](const RequestOutput& output) {
          mailbox->Put({.line = number, .output = output});
        },
        request->options);
    if (!id.ok()) return Refused(key, id.error());
    bytes_under_way_ += line.text.size();
    under_way_[line.number] = {.key = std::move(key),
                               .request_id = *id,
                               .bytes = line.text.size(),
                               .token_ids = request->return_token_ids};
    return {};
  }

  // An engine that takes no requests, or has lost a rank, is no property of the line.
  Status Refused(const LineKey& key, const Error& error) {
    if (error.code == ErrorCode::kFailedPrecondition) return api::ToStatus(error);
    return WriteError(key, error);
  }

  Status WriteError(const LineKey& key, const Error& error) {
    ++report_.errors;
    return Write(ErrorLine(key, results_.run(), error));
  }

  Status Write(const std::string& line) {
    TW_TRY(results_.Append(line));
    ++report_.written;
    if (SecondsSince(last_sync_) < options_.sync_seconds) return {};
    last_sync_ = Clock::now();
    return results_.Sync();
  }

  Status Collect() {
    if (under_way_.empty()) return {};
    for (const Finished& finished : mailbox_->Take(kTurn)) TW_TRY(TakeFinished(finished));
    return {};
  }

  Status TakeFinished(const Finished& finished) {
    const auto at = under_way_.find(finished.line);
    TW_CHECK(at != under_way_.end());
    const UnderWay item = std::move(at->second);
    under_way_.erase(at);
    bytes_under_way_ -= item.bytes;
    if (finished.output.error.has_value()) return Refused(item.key, *finished.output.error);
    if (IsCancelled(finished.output)) {
      ++report_.abandoned;  // no result: the next run answers it
      return {};
    }
    for (const CompletionOutput& one : finished.output.outputs)
      output_tokens_ += static_cast<int64_t>(one.token_ids.size());
    return Write(ResultLine(item.key, results_.run(), finished.output, item.token_ids));
  }

  // What is under way may end within the grace period; what does not is cancelled and not written.
  Status WindDown(const StopRequests& stop) {
    const Clock::time_point begin = Clock::now();
    while (!under_way_.empty() && stop() < 2 && SecondsSince(begin) < options_.grace_seconds)
      TW_TRY(Collect());
    for (const auto& [line, item] : under_way_) llm_.Cancel(item.request_id);
    while (!under_way_.empty()) TW_TRY(Collect());
    return {};
  }

  Status CheckOldLines() const {
    if (report_.old == results_.old_results()) return {};
    return base::FailedPrecondition(
        fmt::format("{} has {} results of lines that are not in the input (up to line {}): the "
                    "input was changed; name a new file for the results",
                    results_.path().string(), results_.old_results() - report_.old,
                    results_.largest_old_line()));
  }

  BatchProgress Progress() const {
    const auto share = [&](int64_t bytes) {
      return static_cast<double>(std::max<int64_t>(bytes, 0)) /
             static_cast<double>(std::max<int64_t>(reader_.file_bytes(), 1));
    };
    return {.answered = report_.written,
            .under_way = static_cast<int64_t>(under_way_.size()),
            .output_tokens = output_tokens_,
            .seconds = SecondsSince(begin_),
            .share = share(offset_ - static_cast<int64_t>(bytes_under_way_)),
            .share_at_start = share(start_offset_)};
  }

  LLM& llm_;
  LineReader reader_;
  ResultFile& results_;
  const BatchOptions& options_;
  BatchReport report_;
  std::shared_ptr<Mailbox<Finished>> mailbox_ = std::make_shared<Mailbox<Finished>>();
  std::unordered_map<int64_t, UnderWay> under_way_;
  std::unordered_set<uint64_t> ids_;
  size_t bytes_under_way_ = 0;
  int64_t output_tokens_ = 0;
  int64_t offset_ = 0;
  int64_t start_offset_ = 0;
  bool at_end_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_sync_ = Clock::now();
};

}  // namespace

Result<BatchReport> RunBatch(LLM& llm, const std::filesystem::path& input, ResultFile* results,
                             const BatchOptions& options, const StopRequests& stop,
                             const std::function<void(const BatchProgress&)>& progress) {
  TW_ASSIGN(LineReader reader, LineReader::Open(input, options.max_line_bytes));
  return Run(llm, std::move(reader), results, options).Work(stop, progress);
}

}  // namespace thalweg::tools::batch
