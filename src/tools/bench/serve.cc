#include "tools/bench/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "base/mapped_file.h"
#include "tools/bench/serve_client.h"

namespace thalweg::tools::bench {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// Ids below it exist in every tokenizer of this model.
constexpr int64_t kPromptVocab = 4096;
constexpr int64_t kDefaultRequests = 256;
constexpr int64_t kDefaultConcurrency = 16;

std::string BodyOf(const LoadOptions& options, const LoadRequest& request, bool stream) {
  base::Json body;
  body["prompt"] = request.prompt;
  body["max_tokens"] = request.output_tokens;
  body["temperature"] = options.temperature;
  body["ignore_eos"] = true;
  body["stream"] = stream;
  if (stream) body["stream_options"] = base::Json{{"include_usage", true}};
  return body.dump();
}

class Run;

// One connection; answers one request after the other.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Run* run, boost::asio::io_context* io) : run_(run), socket_(*io) {}
  void Begin(ServeSample* sample, std::string text);

 private:
  void Write();
  void Read();
  void OnRead(size_t bytes);
  void OnEvent(double now, bool first_of_read);
  void End(const std::string& error);

  Run* run_;
  tcp::socket socket_;
  ServeSample* sample_ = nullptr;
  std::string text_;
  AnswerReader reader_;
  double last_ = 0;  // the newest event
  double due_ = 0;   // the newest event, with a pace
  std::array<char, 16384> bytes_;
};

class Run {
 public:
  Run(const ServeTarget& target, const LoadOptions& options, const std::vector<LoadRequest>& load)
      : target_(target), options_(options), load_(load), samples_(load.size()), timer_(io_) {}

  std::vector<ServeSample> Send() {
    began_ = Clock::now();
    if (options_.rate_per_s > 0) {
      Arrive();
    } else {
      for (int64_t i = 0; i < options_.concurrency; ++i) BeginNext();
    }
    io_.run();
    return std::move(samples_);
  }

  double Now() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  double pace_s() const { return target_.pace_s; }
  // From microseconds of the monotonic clock.
  double TimeOf(int64_t stamp_us) const {
    return std::chrono::duration<double>(std::chrono::microseconds(stamp_us) -
                                         began_.time_since_epoch())
        .count();
  }
  tcp::endpoint endpoint() const {
    return {boost::asio::ip::make_address(target_.host), static_cast<uint16_t>(target_.port)};
  }

  // `session` is free; usable: its connection lives.
  void OnEnd(const std::shared_ptr<Session>& session, bool usable) {
    if (usable) idle_.push_back(session);
    if (options_.rate_per_s <= 0) BeginNext();
  }

 private:
  void Arrive() {
    while (next_ < load_.size() && load_[next_].at_s <= Now()) BeginNext();
    if (next_ == load_.size()) return;
    timer_.expires_at(began_ + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(load_[next_].at_s)));
    timer_.async_wait([this](const error_code& error) {
      if (!error) Arrive();
    });
  }

  void BeginNext() {
    if (next_ == load_.size()) return;
    const size_t i = next_++;
    samples_[i].due = options_.rate_per_s > 0 ? load_[i].at_s : Now();
    std::shared_ptr<Session> session;
    if (idle_.empty()) {
      session = std::make_shared<Session>(this, &io_);
    } else {
      session = std::move(idle_.back());
      idle_.pop_back();
    }
    session->Begin(&samples_[i], TextOf(load_[i]));
  }

  std::string TextOf(const LoadRequest& request) const {
    const std::string body = BodyOf(options_, request, target_.stream);
    const std::string key =
        target_.api_key.empty() ? "" : fmt::format("Authorization: Bearer {}\r\n", target_.api_key);
    return fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
        "{}Content-Length: {}\r\n\r\n{}",
        target_.host, key, body.size(), body);
  }

  const ServeTarget& target_;
  const LoadOptions& options_;
  const std::vector<LoadRequest>& load_;
  std::vector<ServeSample> samples_;
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_;
  std::vector<std::shared_ptr<Session>> idle_;
  size_t next_ = 0;
  Clock::time_point began_;
};

void Session::Begin(ServeSample* sample, std::string text) {
  sample_ = sample;
  text_ = std::move(text);
  reader_ = AnswerReader();
  last_ = 0;
  if (socket_.is_open()) return Write();
  socket_.async_connect(run_->endpoint(), [self = shared_from_this()](const error_code& error) {
    if (error) return self->End(error.message());
    error_code ignored;
    self->socket_.set_option(tcp::no_delay(true), ignored);
    self->Write();
  });
}

void Session::Write() {
  boost::asio::async_write(socket_, boost::asio::buffer(text_),
                           [self = shared_from_this()](const error_code& error, size_t) {
                             if (error) return self->End(error.message());
                             self->Read();
                           });
}

void Session::Read() {
  socket_.async_read_some(boost::asio::buffer(bytes_),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            if (error) return self->End(error.message());
                            self->OnRead(bytes);
                          });
}

void Session::OnRead(size_t bytes) {
  const bool complete = reader_.Push(std::string_view(bytes_.data(), bytes));
  const double now = run_->Now();
  for (int64_t i = 0; i < reader_.new_events(); ++i) OnEvent(now, i == 0);
  if (complete) return End(reader_.error());
  Read();
}

// first_of_read: it did not come together with the event before it.
void Session::OnEvent(double now, bool first_of_read) {
  if (sample_->first == 0) {
    sample_->first = now;
    due_ = run_->TimeOf(reader_.stamp());
  } else {
    sample_->gaps.push_back(first_of_read ? now - last_ : 0);
    due_ += run_->pace_s();
    if (run_->pace_s() > 0) sample_->late.push_back(now - due_);
  }
  last_ = now;
}

void Session::End(const std::string& error) {
  sample_->end = run_->Now();
  sample_->tokens = reader_.tokens();
  sample_->error = error;
  const bool usable = error.empty();
  if (!usable) {
    error_code ignored;
    socket_.close(ignored);
  }
  run_->OnEnd(shared_from_this(), usable);
}

std::vector<double> Gather(const std::vector<ServeSample>& samples,
                           double (*time)(const ServeSample&)) {
  std::vector<double> out;
  for (const ServeSample& sample : samples) {
    if (sample.error.empty()) out.push_back(time(sample));
  }
  return out;
}

// Of this process.
double CpuSeconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

Status SavePlot(const std::string& name, const std::vector<ServeSample>& samples) {
  TW_TRY(base::WriteFile(name + ".csv", ServeCsv(samples)));
  return base::WriteFile(name + ".gnuplot", ServePlot(name));
}

}  // namespace

Result<ServeTarget> ParseTarget(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const auto wrong = [&] {
    return base::InvalidArgument(
        fmt::format("--url {} must be http://ADDRESS:PORT, with an IP address or localhost", url));
  };
  if (!url.starts_with(kScheme)) return wrong();
  std::string_view rest = std::string_view(url).substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return wrong();
  ServeTarget target{.host = std::string(rest.substr(0, colon))};
  if (target.host == "localhost") target.host = "127.0.0.1";
  error_code error;
  boost::asio::ip::make_address(target.host, error);
  const std::string_view port = rest.substr(colon + 1);
  const auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(), target.port);
  if (error || failed != std::errc() || end != port.data() + port.size()) return wrong();
  if (target.port < 1 || target.port > 65535) return wrong();
  return target;
}

Result<std::vector<ServeSample>> SendLoad(const ServeTarget& target, const LoadOptions& options,
                                          const std::vector<LoadRequest>& load) {
  if (load.empty()) return base::InvalidArgument("there are no requests to send");
  return Run(target, options, load).Send();
}

std::vector<Figure> ServeFigures(const std::vector<ServeSample>& samples) {
  double seconds = 0, tokens = 0, errors = 0, events = 0;
  std::vector<double> gaps, late;
  for (const ServeSample& sample : samples) {
    seconds = std::max(seconds, sample.end);
    tokens += static_cast<double>(sample.tokens);
    errors += sample.error.empty() ? 0 : 1;
    events += static_cast<double>(sample.gaps.size()) + (sample.first > 0 ? 1 : 0);
    gaps.insert(gaps.end(), sample.gaps.begin(), sample.gaps.end());
    late.insert(late.end(), sample.late.begin(), sample.late.end());
  }
  const auto count = static_cast<double>(samples.size());
  std::vector<Figure> figures = {{"requests", count},
                                 {"errors", errors},
                                 {"seconds", seconds},
                                 {"requests_per_s", seconds > 0 ? count / seconds : 0},
                                 {"tokens_per_s", seconds > 0 ? tokens / seconds : 0},
                                 {"events", events}};
  AddPercentiles(
      "ttft",
      Gather(samples, [](const ServeSample& s) { return (s.first > 0 ? s.first : s.end) - s.due; }),
      &figures);
  AddPercentiles("itl", gaps, &figures);
  if (!late.empty()) AddPercentiles("added", late, &figures);
  AddPercentiles("e2e", Gather(samples, [](const ServeSample& s) { return s.end - s.due; }),
                 &figures);
  return figures;
}

std::map<std::string, int64_t> ServeErrors(const std::vector<ServeSample>& samples) {
  std::map<std::string, int64_t> errors;
  for (const ServeSample& sample : samples) {
    if (!sample.error.empty()) ++errors[sample.error];
  }
  return errors;
}

std::string ServeCsv(const std::vector<ServeSample>& samples) {
  std::string out = "due_s,ttft_ms,e2e_ms,tokens,failed\n";
  for (const ServeSample& s : samples) {
    out += fmt::format("{:.6f},{:.3f},{:.3f},{},{}\n", s.due,
                       1000 * ((s.first > 0 ? s.first : s.end) - s.due), 1000 * (s.end - s.due),
                       s.tokens, s.error.empty() ? 0 : 1);
  }
  return out;
}

std::string ServePlot(const std::string& name) {
  return fmt::format(
      "set datafile separator ','\n"
      "set terminal svg size 900,500\n"
      "set output '{0}.svg'\n"
      "set title 'requests by the time they were due'\n"
      "set xlabel 'seconds'\n"
      "set ylabel 'milliseconds'\n"
      "set logscale y\n"
      "set grid\n"
      "plot '{0}.csv' using 1:2 every ::1 with points pt 7 ps 0.4 title 'first token', \\\n"
      "     '{0}.csv' using 1:3 every ::1 with points pt 7 ps 0.4 title 'whole answer'\n",
      name);
}

std::vector<base::OptionRow> ServeRows() {
  return {{.name = "url",
           .help = "the server (serve)",
           .fallback = "http://127.0.0.1:8000",
           .value_name = "URL"},
          {.name = "api-key", .help = "sent with every request (serve)", .value_name = "KEY"},
          {.name = "stream",
           .kind = base::OptionKind::kFlag,
           .help = "answers come as events (serve)",
           .fallback = "true"},
          {.name = "pace-ms",
           .kind = base::OptionKind::kReal,
           .help = "answers are of a script that is stamped and has this delay: shows what the "
                   "server adds to the time of an event (serve)",
           .fallback = "0",
           .value_name = "X"},
          {.name = "plot",
           .help = "writes NAME.csv and NAME.gnuplot, which draws NAME.svg (serve)",
           .value_name = "NAME"}};
}

Status BenchServeCommand(const base::OptionValues& values) {
  TW_ASSIGN(ServeTarget target, ParseTarget(values.Text("url")));
  target.api_key = values.Text("api-key");
  target.stream = values.Flag("stream");
  target.pace_s = values.Real("pace-ms") / 1000;
  TW_ASSIGN(LoadOptions options, LoadOptions::From(values, kDefaultConcurrency));
  options.requests = values.OptionalInteger("requests").value_or(kDefaultRequests);
  TW_ASSIGN(const std::vector<LoadRequest> load, MakeLoad(options, kPromptVocab, {}));
  TW_ASSIGN(const std::vector<ServeSample> samples, SendLoad(target, options, load));
  std::vector<Figure> figures = ServeFigures(samples);
  figures.push_back({"client_cpu_s", CpuSeconds()});
  const std::map<std::string, int64_t> errors = ServeErrors(samples);
  if (values.Has("plot")) TW_TRY(SavePlot(values.Text("plot"), samples));
  if (values.Flag("json")) {
    base::Json json = ToJson(figures);
    json["error_texts"] = errors;
    fmt::print("{}\n", json.dump(2));
    return {};
  }
  fmt::print("{}", ToTable(figures));
  for (const auto& [text, count] : errors) fmt::print("{} failed: {}\n", count, text);
  return {};
}

}  // namespace thalweg::tools::bench
