// Every rule of the lint can fail: each is fed a file that breaks it, and one next to it that does
// not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tools/lint/hygiene.h"
#include "tools/lint/layers.h"
#include "tools/lint/sizes.h"
#include "tools/lint/symbols.h"

namespace thalweg::tools::lint {
namespace {

constexpr std::string_view kTable =
    "# a comment\nbase:\ntensor: base\nkernels: base tensor\nmodel: base tensor kernels\n"
    "tools: *\ntests: *\n";

Layers Table() {
  Findings findings;
  Layers layers = ParseLayers(kTable, findings);
  EXPECT_TRUE(findings.empty());
  return layers;
}

// Messages of a rule over one file, joined.
template <typename Rule>
std::string Messages(Rule rule, std::string path, std::string text) {
  Findings findings;
  rule(MakeSource(std::move(path), std::move(text)), findings);
  std::string messages;
  for (const Finding& f : findings) messages += std::to_string(f.line) + ": " + f.message + "\n";
  return messages;
}

std::string Includes(std::string path, std::string text) {
  const auto rule = [](const SourceFile& f, Findings& out) { CheckIncludes(f, Table(), out); };
  return Messages(rule, std::move(path), std::move(text));
}

std::string Symbols(std::string path, std::string text) {
  return Messages(CheckSymbols, std::move(path), std::move(text));
}

std::string Form(std::string path, std::string text) {
  return Messages(CheckForm, std::move(path), std::move(text));
}

std::string Traces(std::string text) { return Messages(CheckTraces, "README.md", std::move(text)); }

TEST(Layers, EdgesUpCyclesAndUnknownRoomsInTheTable) {
  for (const char* bad :
       {"a: b\nb: a\n", "a: a\n", "a: nowhere\n", "a:\na:\n", "t: *\na: t\n", "no colon here\n"}) {
    Findings findings;
    ParseLayers(bad, findings);
    EXPECT_FALSE(findings.empty()) << bad;
  }
}

TEST(Layers, IncludeEdges) {
  EXPECT_EQ(Includes("src/model/a.cc", "#include \"tensor/view.h\"\n#include <vector>\n"), "");
  EXPECT_EQ(Includes("src/model/a.cc", "#include \"model/b.h\"\n// #include \"tools/x.h\"\n"), "");
  EXPECT_NE(Includes("src/kernels/a.cc", "\n#include \"model/config.h\"\n").find("2: "),
            std::string::npos);
  EXPECT_NE(Includes("src/base/a.cc", "#include \"tools/x.h\"\n"), "");
  EXPECT_NE(Includes("src/base/a.cc", "#include \"fmt/format.h\"\n"), "");
  EXPECT_NE(Includes("src/base/a.cc", "#include \"status.h\"\n"), "");
  EXPECT_NE(Includes("src/unheard/a.cc", ""), "");
}

TEST(Layers, TestsSeeEveryRoomButTools) {
  EXPECT_EQ(Includes("src/base/a_test.cc", "#include \"model/config.h\"\n"), "");
  EXPECT_EQ(Includes("src/tests/a.cc", "#include \"model/config.h\"\n"), "");
  EXPECT_NE(Includes("src/base/a_test.cc", "#include \"tools/x.h\"\n"), "");
}

std::string Depends(std::string cmake, const std::set<std::string>& included) {
  const auto rule = [&](const SourceFile& f, Findings& out) {
    CheckDepends(f, Table(), included, out);
  };
  return Messages(rule, "src/kernels/CMakeLists.txt", std::move(cmake));
}

TEST(Layers, DependsAgreesWithTheTable) {
  const std::string good =
      "thalweg_room(NAME kernels SOURCES a.cc\n DEPENDS base tensor # c\n LINK fmt)";
  EXPECT_EQ(Depends(good, {"base", "kernels"}), "");
  EXPECT_NE(Depends("thalweg_room(NAME kernels DEPENDS base)", {}), "");
  EXPECT_NE(Depends("thalweg_room(NAME kernels DEPENDS base tensor model)", {}), "");
  EXPECT_NE(Depends(good, {"model"}), "");
}

size_t CudaFindings(std::vector<std::string> paths) {
  std::vector<SourceFile> files;
  for (std::string& path : paths)
    files.push_back(MakeSource(std::move(path), "#include <cuda_runtime.h>\n"));
  Findings findings;
  CheckCudaHeaders(files, findings);
  return findings.size();
}

TEST(Layers, CudaHeadersStayInTheirPlaces) {
  EXPECT_EQ(CudaFindings({"src/kernels/cuda/gemm.cu", "src/comm/nccl.cc", "src/kvpool/copy.cu",
                          "src/exec/graph_cache.cc", "src/tensor/device.cc"}),
            0u);
  EXPECT_EQ(CudaFindings({"src/model/forward.cc"}), 1u);
  EXPECT_EQ(CudaFindings({"src/kernels/api/gemm.h"}), 1u);
  EXPECT_EQ(CudaFindings({"src/kvpool/pool.cc"}), 1u);
  EXPECT_EQ(CudaFindings({"src/tensor/device.cc", "src/tensor/second.cc"}), 1u);
  EXPECT_EQ(CudaFindings({"src/tensor/device.h"}), 1u);
}

TEST(Symbols, EveryBannedNameIsSeen) {
  for (const char* bad : {"getenv(\"A\")",
                          "std::getenv(\"A\")",
                          "secure_getenv(x)",
                          "std::thread t",
                          "std::jthread t",
                          "std::async(f)",
                          "pthread_create(a)",
                          "rand()",
                          "std::rand ()",
                          "srand(1)",
                          "drand48()",
                          "std::random_device d",
                          "strcpy(a, b)",
                          "strcat(a, b)",
                          "std::sprintf(a, b)",
                          "vsprintf(a)",
                          "gets(a)",
                          "strtok(a, b)",
                          "atoi(a)",
                          "atol(a)",
                          "atoll(a)",
                          "std::atof(a)",
                          "std::cout << 1",
                          "printf(a)",
                          "puts(a)",
                          "putchar(c)"}) {
    EXPECT_NE(Symbols("src/model/a.cc", std::string("  ") + bad + ";\n"), "") << bad;
  }
  EXPECT_NE(Symbols("src/model/a.cc", "#include <iostream>\n"), "");
  EXPECT_NE(Symbols("src/model/a.cc", "#pragma omp parallel for\n"), "");
  EXPECT_NE(Symbols("src/model/a.h", "using namespace std;\n"), "");
}

TEST(Symbols, LikeNamesCommentsAndLiteralsAreLeftAlone) {
  EXPECT_EQ(
      Symbols("src/model/a.cc",
              "snprintf(a); fprintf(stderr); x.rand(); p->puts(1); operand(2); std::this_thread;\n"
              "// getenv(\"A\")\nauto s = \"std::cout\"; using namespace fmt::literals;\n"
              "int rand = 1; std::thread_local_x y;\n"),
      "");
}

TEST(Symbols, TheOnePlaceOfEach) {
  EXPECT_EQ(Symbols("src/base/env.cc", "std::getenv(name);\n"), "");
  EXPECT_EQ(Symbols("src/engine/loop.cc", "std::thread t;\n"), "");
  EXPECT_EQ(Symbols("src/base/mailbox_test.cc", "std::thread t;\n"), "");
  EXPECT_EQ(Symbols("src/base/thread_team.cc", "std::thread t;\n"), "");
  EXPECT_NE(Symbols("src/base/thread_team.h", "#pragma omp parallel for\n"), "");
  EXPECT_EQ(Symbols("src/tools/main.cc", "#include <iostream>\nstd::cout << 1; printf(a);\n"), "");
  EXPECT_EQ(Symbols("src/text/peer.cc", "std::cout << 1;\nint main() { return 0; }\n"), "");
  EXPECT_NE(Symbols("src/base/other.cc", "std::getenv(name);\n"), "");
}

TEST(Form, LinesOfAnyTextFile) {
  EXPECT_EQ(Form("README.md", "a\n\nb\n"), "");
  EXPECT_NE(Form("README.md", "a \n"), "");
  EXPECT_NE(Form("README.md", "a\r\n"), "");
  EXPECT_NE(Form("README.md", "a"), "");
  EXPECT_NE(Form("README.md",
                 "TO"
                 "DO: later\n"),
            "");
  EXPECT_NE(Form("src/a/b.cc",
                 "// FIX"
                 "ME\n"),
            "");
  EXPECT_EQ(Form("src/a/b.cc",
                 "auto s = \"fileXXXX"
                 "XX\";\n"),
            "");
}

TEST(Form, TabsAndColumnsOfSources) {
  EXPECT_NE(Form("src/a/b.cc", "\tint a;\n"), "");
  EXPECT_EQ(Form("Makefile", "all:\n\ttrue\n"), "");
  EXPECT_EQ(Form("src/a/b.cc", std::string(100, 'x') + "\n"), "");
  EXPECT_NE(Form("src/a/b.cc", std::string(101, 'x') + "\n"), "");
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xe4\xbd\xa0";
  EXPECT_EQ(Form("src/a/b.cc", wide + "\n"), "");
}

TEST(Form, OpeningCommentAndPragmaOnce) {
  EXPECT_EQ(Form("src/a/b.h", "// What it is for.\n#pragma once\n"), "");
  EXPECT_NE(Form("src/a/b.h", "#pragma once\n"), "");
  EXPECT_NE(Form("src/a/b.h", "// What it is for.\n// #pragma once\n"), "");
  EXPECT_EQ(Form("src/a/b.inc.h", "// Included twice.\n"), "");
  EXPECT_NE(Form("src/a/b_test.cc", "#include <vector>\n"), "");
  EXPECT_EQ(Form("src/a/b.cc", "#include <vector>\n"), "");
  EXPECT_EQ(Form("src/tests/world.cc", "#include <vector>\n"), "");
}

TEST(Traces, MachinePathsAndPlaceWords) {
  EXPECT_NE(Traces("see /ho"
                   "me/someone/x\n"),
            "");
  EXPECT_NE(Traces("`/ro"
                   "ot/x`\n"),
            "");
  EXPECT_NE(Traces("cd /wo"
                   "rk/x\n"),
            "");
  EXPECT_NE(Traces("Co-Authored"
                   "-By: x\n"),
            "");
  EXPECT_EQ(Traces("docs/wo"
                   "rk/x and https://example.com/ro"
                   "ot/ and /usr/local/cuda/bin\n"),
            "");
}

std::string LongFunction(int lines) {
  std::string text = "void F() {\n";
  for (int i = 0; i < lines - 2; ++i) text += "\n";
  return text + "}\n";
}

size_t SizeFindings(std::string path, std::string text, std::string_view list, size_t budget = 9) {
  const std::vector<SourceFile> files = {MakeSource(std::move(path), std::move(text))};
  Findings findings;
  const auto exceptions = ParseExceptions(list, findings);
  const auto functions = MeasureFunctions(files, findings);
  CheckSizes(files, functions, exceptions, budget, findings);
  return findings.size();
}

TEST(Sizes, FunctionsFilesAndTheMedian) {
  EXPECT_EQ(SizeFindings("src/a/b_test.cc", LongFunction(70), ""), 0u);
  EXPECT_EQ(SizeFindings("src/a/b_test.cc", LongFunction(71), ""), 1u);
  EXPECT_EQ(SizeFindings("src/a/b.cc", LongFunction(12), ""), 0u);
  EXPECT_EQ(SizeFindings("src/a/b.cc", LongFunction(13), ""), 1u);
  EXPECT_EQ(SizeFindings("src/a/b.cc", std::string(500, '\n'), ""), 0u);
  EXPECT_EQ(SizeFindings("src/a/b.cc", std::string(501, '\n'), ""), 1u);
  EXPECT_EQ(SizeFindings("src/kernels/b.cc", std::string(800, '\n'), ""), 0u);
  EXPECT_EQ(SizeFindings("src/kernels/b.cc", std::string(801, '\n'), ""), 1u);
  EXPECT_EQ(SizeFindings("src/a/b.cc", "void F() {\n", ""), 1u);
}

TEST(Sizes, DeviceFunctionsAreNotHeldToHostLimits) {
  EXPECT_EQ(SizeFindings("src/kernels/cuda/a.cu", "__global__ " + LongFunction(100), ""), 0u);
}

TEST(Sizes, ExceptionsMayOnlyShrink) {
  const std::string path = "src/a/b_test.cc";
  EXPECT_EQ(SizeFindings(path, LongFunction(80), "function src/a/b_test.cc:F 80  # why\n"), 0u);
  EXPECT_EQ(SizeFindings(path, LongFunction(81), "function src/a/b_test.cc:F 80\n"), 1u) << "grew";
  EXPECT_EQ(SizeFindings(path, LongFunction(79), "function src/a/b_test.cc:F 80\n"), 1u) << "stale";
  EXPECT_EQ(SizeFindings(path, LongFunction(70), "function src/a/b_test.cc:F 80\n"), 1u)
      << "unneeded";
  EXPECT_EQ(SizeFindings(path, "", "file src/gone.cc 600\n"), 1u) << "gone";
  EXPECT_EQ(SizeFindings(path, "", "nonsense\n"), 1u);
  EXPECT_EQ(SizeFindings(path, LongFunction(80), "function src/a/b_test.cc:F 80\n", 0), 1u)
      << "budget";
  EXPECT_EQ(SizeFindings("src/a/b.cc", std::string(600, '\n'), "file src/a/b.cc 600\n"), 0u);
}

TEST(Sizes, TheReportNamesRoomsAndTheLongest) {
  Findings findings;
  const auto functions = MeasureFunctions(
      {MakeSource("src/base/a.cc", "int Long() {\n\n}\nint Short() {}\n")}, findings);
  const std::string report = SizeReport(functions);
  EXPECT_NE(report.find("base"), std::string::npos);
  EXPECT_NE(report.find("Long"), std::string::npos);
  EXPECT_EQ(MedianHostLines(functions), 2.0);
}

class TreeTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("thalweg_lint_" + std::to_string(getpid()));
};

TEST_F(TreeTest, BuildsHiddenFoldersAndDataAreLeftOut) {
  EXPECT_FALSE(ReadTree(root_).ok());
  for (const char* path : {"layers.txt", "src/base/a.cc", "build/a.cc", "build-x/a.cc",
                           ".git/a.txt", "tests/data/a.json", "models/nano/config.json",
                           "models/nano/LICENSES.md", ".ci/run", "Makefile", "picture.png"}) {
    Put(path, "\n");
  }
  const auto files = ReadTree(root_);
  ASSERT_TRUE(files.ok());
  std::string paths;
  for (const SourceFile& file : *files) paths += file.path + " ";
  EXPECT_EQ(paths, ".ci/run Makefile layers.txt models/nano/LICENSES.md src/base/a.cc ");
}

TEST_F(TreeTest, AWholeTreeIsHeldToItsTable) {
  Put("layers.txt", std::string(kTable));
  Put("src/base/a.cc", "#include \"model/config.h\"\n");
  Put("src/tensor/CMakeLists.txt", "thalweg_room(NAME tensor)\n");
  const auto files = ReadTree(root_);
  ASSERT_TRUE(files.ok());
  Findings findings;
  CheckLayers(*files, findings);
  EXPECT_EQ(findings.size(), 2u);
}

}  // namespace
}  // namespace thalweg::tools::lint
