// Every op of every backend: close to the reference, the same bits on every cpu target (products:
// of one order of sums), and rows whose bits do not depend on their neighbours, their place, the
// size of the call, NaN elsewhere, the number of threads, or the call before (spec/decoding.md 3.4
// a).
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "kernels/backends.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

struct Backend {
  std::string name;
  const Ops* ops;
};

std::vector<Backend> AllBackends() {
  std::vector<Backend> all = {{"reference", &ReferenceOps()}};
  if (DeviceOps() != nullptr) return {all.front(), {"cuda", DeviceOps()}};
  for (const CpuTarget& target : CpuTargets()) {
    if (target.supported) all.push_back({std::string(target.name), target.ops});
  }
  return all;
}

const RowOps& AllCases() {
  static const RowOps cases = [] {
    RowOps made;
    AddProjectionCases(&made);
    AddHyperConnectionCases(&made);
    AddExpertCases(&made);
    AddCacheCases(&made);
    AddAttentionCases(&made);
    AddEngramCases(&made);
    return made;
  }();
  return cases;
}

Rows FirstRows(int count) {
  Rows rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// What each row writes when it is alone.
RowOutputs Alone(const RowOp& op, const Ops& ops, int count) {
  const base::ThreadTeam one(1);
  RowOutputs out;
  for (int r = 0; r < count; ++r) out.push_back(op.Run(ops, one, {r}).front());
  return out;
}

// Counts rows of a call (garbage left out) that differ from what they are alone.
int DifferentRows(const RowOutputs& got, const Rows& rows, const RowOutputs& alone) {
  int different = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kGarbage) continue;
    different += SameBits(got[i], alone[static_cast<size_t>(rows[i])]) ? 0 : 1;
  }
  return different;
}

void ExpectClose(const RowOutputs& want, const RowOutputs& got, Tolerance limit,
                 const std::string& what) {
  double squares = 0, error_squares = 0, largest = 0;
  double count = 0;
  ASSERT_EQ(want.size(), got.size()) << what;
  for (size_t r = 0; r < want.size(); ++r) {
    ASSERT_EQ(want[r].size(), got[r].size()) << what;
    for (size_t i = 0; i < want[r].size(); ++i) {
      const double error = std::fabs(static_cast<double>(want[r][i]) - got[r][i]);
      ASSERT_TRUE(std::isfinite(error)) << what << " row " << r << " value " << i;
      squares += static_cast<double>(want[r][i]) * want[r][i];
      error_squares += error * error;
      largest = std::max(largest, error);
      count += 1;
    }
  }
  if (count == 0) return;
  const double rms = std::sqrt(squares / count) + 1e-30;
  EXPECT_LE(std::sqrt(error_squares / count) / rms, limit.rms) << what;
  EXPECT_LE(largest / rms, limit.largest) << what;
}

TEST(RowOps, CloseToTheReference) {
  const base::ThreadTeam team(2);
  for (const auto& op : AllCases()) {
    for (const int count : {0, 1, 2, 3, 17, 65}) {
      const RowOutputs want = op->Run(ReferenceOps(), team, FirstRows(count));
      for (const Backend& backend : AllBackends()) {
        ExpectClose(want, op->Run(*backend.ops, team, FirstRows(count)), op->tolerance(),
                    op->name() + " on " + backend.name + ", rows " + std::to_string(count));
      }
    }
  }
}

TEST(RowOps, AllCpuTargetsGiveTheSameBits) {
  const base::ThreadTeam team(2);
  const std::vector<Backend> backends = AllBackends();
  for (const auto& op : AllCases()) {
    for (const int count : {1, 3, 17, 65}) {
      const Rows rows = FirstRows(count);
      const RowOutputs generic = op->Run(*backends[1].ops, team, rows);
      for (size_t b = 2; b < backends.size(); ++b) {
        // Where only the order of sums may differ, tables of one order are compared.
        const Ops& like = op->multiplies() ? PlainestLike(*backends[b].ops) : *backends[1].ops;
        const RowOutputs want = &like == backends[1].ops ? generic : op->Run(like, team, rows);
        EXPECT_EQ(DifferentRows(op->Run(*backends[b].ops, team, rows), rows, want), 0)
            << op->name() << " on " << backends[b].name << ", rows " << count;
      }
    }
  }
}

TEST(RowOps, ARowIsTheSameInACallOfAnySize) {
  const base::ThreadTeam team(2);
  for (const Backend& backend : AllBackends()) {
    for (const auto& op : AllCases()) {
      const RowOutputs alone = Alone(*op, *backend.ops, 65);
      for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 65}) {
        const Rows rows = FirstRows(count);
        EXPECT_EQ(DifferentRows(op->Run(*backend.ops, team, rows), rows, alone), 0)
            << op->name() << " on " << backend.name << ", rows " << count;
      }
    }
  }
}

TEST(RowOps, ARowIsTheSameAtAnyPlaceBesideNaNWithAnyThreads) {
  for (const Backend& backend : AllBackends()) {
    for (const auto& op : AllCases()) {
      const RowOutputs alone = Alone(*op, *backend.ops, 40);
      Rows rows;
      for (int i = 0; i < 40; ++i) {
        rows.push_back(i * 17 % 40);
        if (i % 3 == 1) rows.push_back(kGarbage);
      }
      for (const int threads : {1, 2, 3}) {
        const base::ThreadTeam team(threads);
        EXPECT_EQ(DifferentRows(op->Run(*backend.ops, team, rows), rows, alone), 0)
            << op->name() << " on " << backend.name << ", threads " << threads;
      }
    }
  }
}

TEST(RowOps, ASecondCallRepeatsTheFirst) {
  const base::ThreadTeam team(2);
  const Rows rows = FirstRows(23);
  for (const Backend& backend : AllBackends()) {
    for (const auto& op : AllCases()) {
      const RowOutputs first = op->Run(*backend.ops, team, rows);
      // Something else in between leaves its marks in the scratch memory.
      static_cast<void>(op->Run(*backend.ops, team, {kGarbage, kGarbage, kGarbage, 7}));
      EXPECT_EQ(DifferentRows(op->Run(*backend.ops, team, rows), rows, first), 0)
          << op->name() << " on " << backend.name;
    }
  }
}

TEST(Backends, AreFoundByNameAndRefusedWithTheKnownOnes) {
  EXPECT_EQ((*FindBackend({"reference"}))->name, "reference");
  EXPECT_EQ((*FindBackend({"cpu"}))->name, "cpu");
  const auto unknown = FindBackend({"abacus"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("reference, cpu"), std::string::npos);
  EXPECT_TRUE(CpuOps("generic").ok());
  EXPECT_FALSE(CpuOps("avx1024").ok());
  for (const BackendInfo& info : Backends()) EXPECT_FALSE(info.target.empty());
}

}  // namespace
}  // namespace thalweg::kernels::testing
