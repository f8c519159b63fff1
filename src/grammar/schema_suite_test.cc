// Property: over the JSON-Schema-Test-Suite no invalid instance is ever accepted, and what is
// supported only grows: each group of tests has a grade in tests/data/grammar/schema_suite.txt.
//
// The suite is not part of the repository. Draft 7 is read from the Debian package
// json-schema-test-suite, draft 2020-12 from libtest-json-schema-acceptance-perl; without them
// these tests skip.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/json.h"
#include "base/mapped_file.h"
#include "grammar/schema.h"
#include "grammar/test_recogniser.h"

namespace thalweg::grammar {
namespace {

using base::Json;

// From best to worst.
enum class Grade : uint8_t {
  kPass,         // every instance judged rightly
  kOrder,        // likewise, once the keys of instances are in the order of the schema
  kUnsupported,  // refused with an error that names the keyword
  kValidRefused,
  kError,            // refused as a wrong schema
  kInvalidAccepted,  // never
};
constexpr std::array kGradeNames = {"pass",          "order", "unsupported",
                                    "valid_refused", "error", "invalid_accepted"};

using Grades = std::map<std::string, Grade>;

struct Suite {
  std::string name;
  std::string directory;
};

// Files that are not about what this room promises: references to other documents, vocabularies,
// unevaluatedProperties and unevaluatedItems, and formats as annotations.
bool IsExcluded(const std::string& file) {
  for (const char* name : {"refRemote", "vocabulary", "unevaluated", "format.json"}) {
    if (file.find(name) != std::string::npos) return true;
  }
  return false;
}

// The instance with the keys of every object in every order, at most `most` of them.
std::vector<Json> Orders(const Json& value, size_t most);

std::vector<Json> OrdersOfArray(const Json& value, size_t most) {
  std::vector<Json> orders = {Json::array()};
  for (const Json& item : value) {
    std::vector<Json> longer;
    for (const Json& order : orders) {
      for (const Json& one : Orders(item, most)) {
        if (longer.size() == most) break;
        longer.push_back(order);
        longer.back().push_back(one);
      }
    }
    orders = std::move(longer);
  }
  return orders;
}

std::vector<Json> OrdersOfObject(const Json& value, size_t most) {
  std::vector<std::string> keys;
  for (const auto& member : value.items()) keys.push_back(member.key());
  std::sort(keys.begin(), keys.end());
  std::vector<Json> orders;
  do {
    std::vector<Json> partial = {Json::object()};
    for (const std::string& key : keys) {
      std::vector<Json> longer;
      for (const Json& order : partial) {
        for (const Json& one : Orders(value[key], most)) {
          if (longer.size() == most) break;
          longer.push_back(order);
          longer.back()[key] = one;
        }
      }
      partial = std::move(longer);
    }
    orders.insert(orders.end(), partial.begin(), partial.end());
  } while (orders.size() < most && std::next_permutation(keys.begin(), keys.end()));
  return orders;
}

std::vector<Json> Orders(const Json& value, size_t most) {
  if (value.is_array()) return OrdersOfArray(value, most);
  if (value.is_object()) return OrdersOfObject(value, most);
  return {value};
}

// As Python's json.dumps writes, non-ASCII characters kept.
std::string PythonText(const Json& value) {
  if (!value.is_structured()) return value.dump();
  std::string text = value.is_array() ? "[" : "{";
  const char* separator = "";
  for (const auto& [key, member] : value.items()) {
    text += separator;
    if (value.is_object()) text += Json(key).dump() + ": ";
    text += PythonText(member);
    separator = ", ";
  }
  return text + (value.is_array() ? "]" : "}");
}

bool Accepts(Rules* rules, const Json& value) {
  const std::string text = PythonText(value);
  return TestRecogniser(rules, text).Accepts();
}

Grade GradeOf(Rules* rules, const Json& tests) {
  Grade worst = Grade::kPass;
  for (const Json& test : tests) {
    const bool valid = test["valid"].get<bool>();
    if (Accepts(rules, test["data"]) == valid && valid) continue;
    const std::vector<Json> orders = Orders(test["data"], 30);
    const bool any = std::any_of(orders.begin(), orders.end(),
                                 [&](const Json& order) { return Accepts(rules, order); });
    if (any == valid && !valid) continue;
    const Grade grade = !valid ? Grade::kInvalidAccepted
                        : any  ? Grade::kOrder
                               : Grade::kValidRefused;
    worst = std::max(worst, grade);
    if (grade >= Grade::kValidRefused) {
      fmt::print(stderr, "  {}: {}: {}\n", kGradeNames[static_cast<size_t>(grade)],
                 test["description"].get<std::string>(), test["data"].dump());
    }
  }
  return worst;
}

Grade GradeOf(const Json& group) {
  Result<Rules> rules = CompileSchema(group["schema"], {}, {});
  if (rules.ok()) return GradeOf(&rules.value(), group["tests"]);
  fmt::print(stderr, "  {}\n", rules.status().ToString());
  return rules.status().code() == base::Code::kUnsupported ? Grade::kUnsupported : Grade::kError;
}

Grades GradesOf(const Suite& suite) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(suite.directory)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Grades grades;
  for (const auto& file : files) {
    const std::string name = file.filename().string();
    if (IsExcluded(name)) continue;
    std::ifstream stream(file);
    for (const Json& group : Json::parse(stream)) {
      const std::string key =
          suite.name + "/" + name + ": " + group["description"].get<std::string>();
      fmt::print(stderr, "{}\n", key);
      const Grade grade = GradeOf(group);
      const auto [entry, fresh] = grades.try_emplace(key, grade);
      if (!fresh) entry->second = std::max(entry->second, grade);
    }
  }
  return grades;
}

Grades ReadRatchet(const std::string& suite) {
  std::ifstream stream(THALWEG_SOURCE_DIR "/tests/data/grammar/schema_suite.txt");
  Grades grades;
  for (std::string line; std::getline(stream, line);) {
    const size_t space = line.find(' ');
    const auto name = std::find(kGradeNames.begin(), kGradeNames.end(), line.substr(0, space));
    if (name == kGradeNames.end() || line.compare(space + 1, suite.size() + 1, suite + "/") != 0) {
      continue;
    }
    grades[line.substr(space + 1)] = static_cast<Grade>(name - kGradeNames.begin());
  }
  return grades;
}

void WriteGrades(const Suite& suite, const Grades& grades) {
  std::ofstream stream(testing::TempDir() + "schema_suite_" + suite.name + ".txt");
  for (const auto& [group, grade] : grades) {
    stream << kGradeNames[static_cast<size_t>(grade)] << " " << group << "\n";
  }
}

class SchemaSuite : public testing::TestWithParam<Suite> {};

TEST_P(SchemaSuite, NoGradeGetsWorse) {
  const Suite& suite = GetParam();
  if (!std::filesystem::exists(suite.directory)) {
    GTEST_SKIP() << "no " << suite.directory << ": the package with the test suite is missing";
  }
  const Grades grades = GradesOf(suite), known = ReadRatchet(suite.name);
  WriteGrades(suite, grades);
  double passed = 0;
  for (const auto& [group, grade] : grades) {
    EXPECT_NE(grade, Grade::kInvalidAccepted) << group;
    passed += grade <= Grade::kOrder ? 1 : 0;
    const auto before = known.find(group);
    if (before == known.end()) continue;  // of another version of the suite
    EXPECT_LE(grade, before->second)
        << group << ": is " << kGradeNames[static_cast<size_t>(grade)] << ", was "
        << kGradeNames[static_cast<size_t>(before->second)];
  }
  fmt::print(stderr, "{}: {} of {} groups pass\n", suite.name, passed, grades.size());
  EXPECT_GE(passed, 0.8 * static_cast<double>(grades.size()));
  EXPECT_FALSE(known.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Drafts, SchemaSuite,
    testing::Values(Suite{"draft7", "/usr/share/json-schema-test-suite/tests/draft7"},
                    Suite{"draft2020-12",
                          "/usr/share/perl5/auto/share/dist/Test-JSON-Schema-Acceptance/"
                          "tests/draft2020-12"}),
    [](const auto& suite) { return suite.param.name == "draft7" ? "Draft7" : "Draft202012"; });

}  // namespace
}  // namespace thalweg::grammar
