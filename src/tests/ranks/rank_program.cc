// One rank of the MPI tests: started by mpirun, it does what its arguments say and leaves as a rank
// of the engine would.
//   rank_program check SEED OPERATIONS DELAY_US   random operations against the model
//   rank_program work DIR SILENCE_MS              endless steps; DIR/pid.R says where; one beats
//   rank_program agree RANK                       that rank has another value of one option
//   rank_program fail RANK                        that rank fails in its third step
//   rank_program differ                           ranks that do not do the same
#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/mapped_file.h"
#include "comm/agreement.h"
#include "comm/beat.h"
#include "comm/mpi/session.h"
#include "comm/test_program.h"

namespace thalweg::comm {
namespace {

int64_t Number(const char* text) { return std::strtoll(text, nullptr, 10); }

Status Check(Communicator& world, char** args) {
  return RunProgram(world, {.seed = static_cast<uint64_t>(Number(args[0])),
                            .operations = static_cast<int>(Number(args[1])),
                            .most_delay_us = static_cast<int>(Number(args[2])),
                            .most_bytes = 40'000});
}

// A step: rank 0 says what is to be done, rows go to and fro, everybody computes a while.
Status Step(Communicator& world) {
  const auto size = static_cast<size_t>(world.size());
  std::vector<std::byte> plan(3000);
  TW_TRY(world.Broadcast(0, plan));
  std::vector<std::byte> out(size * 20'000), in(out.size());
  const std::vector<int64_t> bytes(size, 20'000);
  TW_TRY(world.AllToAll(out, bytes, in, bytes));
  std::vector<float> sums(5000, 1.0F);
  TW_TRY(world.Sum(std::span(sums)));
  std::this_thread::sleep_for(Milliseconds(3));
  return {};
}

Status Work(Communicator& world, const std::string& folder) {
  TW_TRY(
      base::WriteFile(fmt::format("{}/pid.{}", folder, world.rank()), fmt::format("{}", getpid())));
  while (true) TW_TRY(Step(world));
}

Status FailInThirdStep(Communicator& world, int64_t rank) {
  for (int step = 1;; ++step) {
    if (step == 3 && world.rank() == rank) {
      world.Fail(base::ResourceExhausted("no memory left"));
      return world.Check();
    }
    TW_TRY(Step(world));
  }
}

Status Differ(Communicator& world) {
  std::vector<std::byte> data(8);
  if (world.rank() == 0) return world.Broadcast(0, data);
  return world.Receive(0, std::span(data).first(4));
}

Status Do(Communicator& world, int count, char** args) {
  const std::string mode = args[0];
  if (mode == "check" && count == 4) return Check(world, args + 1);
  if (mode == "work" && count == 3) return Work(world, args[1]);
  if (mode == "fail" && count == 2) return FailInThirdStep(world, Number(args[1]));
  if (mode == "differ") return Differ(world);
  if (mode == "agree" && count == 2)
    return Agree(&world, {{"version", "1"},
                          {"option --block-size", Number(args[1]) == world.rank() ? "128" : "64"}});
  return base::InvalidArgument("unknown mode " + mode);
}

Limits LimitsOf(int count, char** args) {
  if (std::string(args[0]) == "work" && count == 3)
    return {.patience = Milliseconds(60'000), .silence = Milliseconds(Number(args[2]))};
  return {.patience = Milliseconds(3'000)};
}

int Main(int count, char** args) {
  auto session = MpiSession::Start(LimitsOf(count, args));
  if (!session.ok()) {
    fmt::print(stderr, "{}\n", session.status().ToString());
    return 2;
  }
  Communicator& world = (*session)->world();
  std::jthread beating([&world](const std::stop_token& stop) { BeatUntilStopped(stop, &world); });
  Status status = Do(world, count, args);
  if (!status.ok()) LeaveBrokenGroup(world, status);
  fmt::print("rank {} of {} is done\n", world.rank(), world.size());
  beating.request_stop();
  beating.join();
  status = (*session)->End();
  if (!status.ok()) LeaveBrokenGroup(world, status);
  return 0;
}

}  // namespace
}  // namespace thalweg::comm

int main(int argc, char** argv) { return argc < 2 ? 2 : thalweg::comm::Main(argc - 1, argv + 1); }
