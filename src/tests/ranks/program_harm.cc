#include "tests/ranks/program_harm.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <mutex>
#include <thread>

#include "tests/ranks/job.h"
#include "tests/ranks/program_kit.h"

namespace thalweg::tests {
namespace {

using std::chrono::seconds;

constexpr int kRanks = 3;
constexpr int kClients = 4;
constexpr seconds kGone{10};

// How often `word` stands in what the job has said so far.
int Said(const Job& job, const std::string& word) {
  int count = 0;
  for (const std::string& line : LinesOf(job.folder() / "output"))
    count += line.find(word) != std::string::npos ? 1 : 0;
  return count;
}

// All have joined when each has said with which options it begins to load.
std::vector<pid_t> JoinedPids(const Job& job, const std::string& word) {
  std::vector<pid_t> pids;
  EXPECT_TRUE(WaitFor([&] { return Said(job, "options: ") >= kRanks; }));
  EXPECT_TRUE(WaitFor([&] {
    pids = PidsWith(word);
    return pids.size() == kRanks;
  }));
  return pids;
}

// What a client got: everything until the server ended the connection; empty when it could not
// connect; "?" when it still waits.
std::string Ask(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const timeval limit{.tv_sec = 25, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string got;
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string body =
        R"({"model":"nano","prompt":"One upon a time","max_tokens":4000,"ignore_eos":true})";
    const std::string request = fmt::format(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
        "application/json\r\nContent-Length: {}\r\n\r\n{}",
        body.size(), body);
    static_cast<void>(send(socket, request.data(), request.size(), MSG_NOSIGNAL));
    char buffer[4096];
    ssize_t count = 0;
    while ((count = recv(socket, buffer, sizeof(buffer), 0)) > 0)
      got.append(buffer, static_cast<size_t>(count));
    if (count < 0 && errno == EAGAIN) got = "?";
  }
  close(socket);
  return got;
}

// Clients that ask again and again until the server is gone.
class Clients {
 public:
  explicit Clients(int port) {
    for (int i = 0; i < kClients; ++i)
      threads_.emplace_back([this, port] {
        std::string got;
        while (!(got = Ask(port)).empty()) {
          const std::scoped_lock lock(mutex_);
          answers_.push_back(got.substr(0, got.find('\r')));
          if (got == "?") return;
        }
      });
  }
  std::vector<std::string> Answers() {
    threads_.clear();
    return answers_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> answers_;
  std::vector<std::jthread> threads_;
};

std::vector<std::string> FlagsFor(ProgramHarm harm) {
  if (harm == ProgramHarm::kKillUnnoticed) return {"--enable-recovery"};
  return {};
}

void Hurt(const ProgramHarmCase& c, const std::vector<pid_t>& pids) {
  std::this_thread::sleep_for(std::chrono::milliseconds(c.delay_ms));
  const int signal = c.harm == ProgramHarm::kStop ? SIGSTOP : SIGKILL;
  EXPECT_EQ(kill(pids[static_cast<size_t>(c.victim)], signal), 0)
      << "the job was over before the harm";
}

void CheckEnd(const ProgramHarmCase& c, Job* job, std::vector<pid_t> pids) {
  const pid_t victim = pids[static_cast<size_t>(c.victim)];
  pids.erase(pids.begin() + c.victim);
  EXPECT_TRUE(AllGone(pids, kGone));
  const JobResult result = job->Wait(kGone);
  EXPECT_TRUE(result.ended) << result.output;
  const std::string name = fmt::format("rank {}", c.victim);
  // When all work is done, MPI ends: it knows that somebody does not come, and not who.
  const bool at_end = result.output.find("MPI did not start or end in time") != std::string::npos;
  EXPECT_TRUE(at_end || result.output.find(name) != std::string::npos) << result.output;
  if (c.harm == ProgramHarm::kKill) {
    EXPECT_TRUE(result.code == 128 + SIGKILL || result.code == 75) << result.code;
  } else {
    EXPECT_TRUE(at_end ||
                result.output.find(name + " is gone: nothing heard of it for") != std::string::npos)
        << result.output;
  }
  if (c.harm == ProgramHarm::kStop) {
    EXPECT_EQ(result.code, 75) << result.output;
    kill(victim, SIGKILL);
  }
}

void HarmBatch(const ProgramHarmCase& c) {
  static const std::string in = NewFile("harm-in", BatchLines(80, 60));
  static const std::multiset<std::string> expected = [] {
    const std::string alone = NewFile("harm-alone", "");
    EXPECT_EQ(Job(1, BatchCommand(in, alone)).Wait(seconds(120)).code, 0);
    return LinesOf(alone);
  }();
  const std::string out = NewFile("harm-out", "");
  std::vector<std::string> words = BatchCommand(in, out);
  words.insert(words.end(), {"--log-level", "info"});
  Job job(kRanks, words, FlagsFor(c.harm));
  const std::vector<pid_t> pids = JoinedPids(job, out);
  ASSERT_EQ(pids.size(), kRanks);
  Hurt(c, pids);
  CheckEnd(c, &job, pids);
  const std::multiset<std::string> kept = LinesOf(out);
  EXPECT_TRUE(std::includes(expected.begin(), expected.end(), kept.begin(), kept.end()));
  if (!c.again) return;
  EXPECT_EQ(Job(2, words).Wait(seconds(120)).code, 0);
  EXPECT_EQ(LinesOf(out), expected);
}

// Not bound yet, but likely to stay free.
int SomePort(int salt) { return 20'000 + (getpid() * 7 + salt * 131) % 20'000; }

void HarmServe(const ProgramHarmCase& c) {
  static int salt = 0;
  const int port = SomePort(++salt);
  const std::string number = fmt::format("{}", port);
  Job job(kRanks,
          {THALWEG_PROGRAM, "serve", "--port", number, "--model", NanoFolder(), "--threads", "1",
           "--cache-tokens", "8192", "--max-sequences", "8", "--log-level", "info"},
          FlagsFor(c.harm));
  const std::vector<pid_t> pids = JoinedPids(job, number);
  ASSERT_EQ(pids.size(), kRanks);
  if (c.delay_ms > 0) {  // otherwise while it loads
    EXPECT_TRUE(WaitFor([&] { return Said(job, ":" + number) > 0; }));
  }
  Clients clients(port);
  Hurt(c, pids);
  CheckEnd(c, &job, pids);
  for (const std::string& answer : clients.Answers())
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 503") ||
                (c.harm == ProgramHarm::kKill && answer != "?"))
        << answer;
}

}  // namespace

void HarmProgram(const ProgramHarmCase& c) {
  SCOPED_TRACE(fmt::format("{}, victim {}, harm {} after {} ms", c.serve ? "serve" : "batch",
                           c.victim, static_cast<int>(c.harm), c.delay_ms));
  if (c.serve) {
    HarmServe(c);
  } else {
    HarmBatch(c);
  }
}

}  // namespace thalweg::tests
