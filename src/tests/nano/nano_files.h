// The shipped checkpoint and its published figures, read for tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "tools/session.h"

namespace thalweg::tests {

inline std::filesystem::path SourceDir() { return THALWEG_SOURCE_DIR; }

inline base::Json ReadJson(const std::filesystem::path& path) {
  const Result<std::string> text = base::ReadFile(path, 1 << 30);
  TW_CHECK(text.ok());
  Result<base::Json> json = base::ParseJson(*text, path.string());
  TW_CHECK(json.ok());
  return *json;
}

// The held-out documents: kind, text, ids.
inline std::vector<base::Json> Heldout() {
  std::ifstream file(SourceDir() / "tests/data/nano/heldout.jsonl");
  std::vector<base::Json> out;
  for (std::string line; std::getline(file, line);) out.push_back(base::Json::parse(line));
  TW_CHECK(!out.empty());
  return out;
}

inline tools::Session OpenNano(const std::string& backend, int64_t max_sequences = 1,
                               kernels::Numerics numerics = kernels::Numerics::kExact) {
  tools::SessionOptions options;
  options.folder = SourceDir() / "models/nano";
  options.backend = backend;
  options.numerics = numerics;
  options.max_sequences = max_sequences;
  options.max_tokens = 4096 * max_sequences;
  options.draft = true;
  Result<tools::Session> session = tools::OpenSession(options);
  if (!session.ok())
    base::CheckFailed(__FILE__, __LINE__, "OpenSession", session.status().ToString());
  return std::move(*session);
}

}  // namespace thalweg::tests
