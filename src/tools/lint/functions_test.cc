// The scanner finds every function of a file with its extent, and is not led astray by braces and
// marks in strings, comments, directives, initialisers and class bodies.
#include "tools/lint/functions.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/lint/blank.h"

namespace thalweg::tools::lint {
namespace {

std::vector<Function> Scan(std::string_view text) {
  const auto functions = FindFunctions(BlankCommentsAndLiterals(text));
  EXPECT_TRUE(functions.has_value()) << text;
  return functions.value_or(std::vector<Function>{});
}

// "Name:lines Name:lines", the shape that most tests compare.
std::string Summary(std::string_view text) {
  std::string summary;
  for (const Function& f : Scan(text)) {
    if (!summary.empty()) summary += ' ';
    summary += f.name + ":" + std::to_string(f.lines());
  }
  return summary;
}

TEST(Blank, KeepsLinesAndLength) {
  const std::string text = "int a; // one {\n/* two\n{ */ int b;\nconst char* s = \"}\\\"{\";\n";
  const std::string code = BlankCommentsAndLiterals(text);
  EXPECT_EQ(code.size(), text.size());
  EXPECT_EQ(std::count(code.begin(), code.end(), '\n'), 4);
  EXPECT_EQ(code.find_first_of("{}"), std::string::npos);
  EXPECT_NE(code.find("int b;"), std::string::npos);
}

TEST(Blank, RawStringsAndDigitSeparators) {
  const std::string raw = "auto s = R\"x({ \" )\" )x\"; int a;";
  EXPECT_EQ(BlankCommentsAndLiterals(raw).find('{'), std::string::npos);
  EXPECT_NE(BlankCommentsAndLiterals(raw).find("int a;"), std::string::npos);
  const std::string digits = "int n = 1'000'000; char c = '{'; int m = 0xff'00;";
  EXPECT_EQ(BlankCommentsAndLiterals(digits).find('{'), std::string::npos);
  EXPECT_NE(BlankCommentsAndLiterals(digits).find("1'000'000"), std::string::npos);
}

TEST(Blank, AnApostropheInADirectiveEndsWithItsLine) {
  const std::string code = BlankCommentsAndLiterals("#error don't\nint a;\nchar c = 'x';\n");
  EXPECT_NE(code.find("int a;"), std::string::npos);
}

TEST(Blank, DirectivesGoWithTheirContinuations) {
  const std::string code = BlankDirectives("#define M(x) do { \\\n  x; \\\n} while (0)\nint a;\n");
  EXPECT_EQ(code.find('{'), std::string::npos);
  EXPECT_NE(code.find("int a;"), std::string::npos);
}

TEST(Functions, FreeMemberAndQualified) {
  EXPECT_EQ(Summary("int F() { return 1; }\n"), "F:1");
  EXPECT_EQ(Summary("namespace a::b {\nint F() {\n  return 1;\n}\n}\n"), "F:3");
  EXPECT_EQ(Summary("class A : public B<int> {\n public:\n  int F() const { return 1; }\n"
                    " private:\n  int G() const noexcept override {\n  }\n};\n"),
            "F:1 G:2");
  EXPECT_EQ(Summary("int Shape::elements() const {\n}\nShape::~Shape() {}\n"),
            "Shape::elements:2 Shape::~Shape:1");
}

TEST(Functions, TheSignatureCounts) {
  EXPECT_EQ(Summary("template <typename T>\nstd::vector<T> F(int a,\n    int b) {\n}\n"), "F:4");
}

TEST(Functions, ConstructorsWithBraceInitialisers) {
  EXPECT_EQ(Summary("A::A(int x) : x_{x}, y_(x), z_{} {\n  F();\n}\n"), "A::A:3");
  EXPECT_EQ(Summary("struct A {\n  A() : x{1} {}\n  int x = {2};\n  int y{3};\n};\n"), "A:1");
}

TEST(Functions, Operators) {
  EXPECT_EQ(Summary("bool operator==(A a, A b) { return true; }\n"
                    "struct F {\n  int operator()(int x) const { return x; }\n"
                    "  F& operator=(F&& o) {\n    return *this;\n  }\n"
                    "  operator bool() const { return true; }\n};\n"
                    "std::ostream& operator<<(std::ostream& o, A) { return o; }\n"),
            "operator==:1 operator():1 operator=:3 operatorbool:1 operator<<:1");
}

TEST(Functions, InitialisersEnumsAndTypesAreNone) {
  EXPECT_EQ(Summary("enum class Code : int { kA, kB };\nstruct P { int x = 0; };\n"
                    "const int kTable[] = {1, 2};\nstd::array<int, 2> kOther{1, 2};\n"
                    "std::function<void(int)> kThird{};\nusing T = std::vector<int>;\n"
                    "struct [[nodiscard]] alignas(64) Q { int y; };\n"),
            "");
}

TEST(Functions, LambdasCountWithTheirFunction) {
  EXPECT_EQ(Summary("void F() {\n  auto g = [](int x) {\n    return x;\n  };\n  struct L {\n"
                    "    int h() { return 1; }\n  };\n}\n"),
            "F:8");
  EXPECT_EQ(Summary("const auto kF = [](int x) {\n  return x;\n};\n"), "kF:3");
}

TEST(Functions, DefaultArgumentsWithBracesAndLambdas) {
  EXPECT_EQ(Summary("void F(Limits l = {}, int (*f)() = [] { return 1; }) {\n}\n"), "F:2");
}

TEST(Functions, MacrosThatLookLikeFunctionsAreNamedInFull) {
  EXPECT_EQ(Summary("TEST(Philox, UnitIsOpen) {\n}\n"), "TEST(Philox, UnitIsOpen):2");
}

TEST(Functions, TrailingReturnAttributesAndExternC) {
  EXPECT_EQ(Summary("auto F(int x) -> std::vector<int> {\n}\n"
                    "__attribute__((target(\"avx2\"))) void G() {\n}\n"
                    "[[nodiscard]] int H() noexcept(true) {\n}\n"
                    "extern \"C\" int I(const char* p) {\n}\n"
                    "extern \"C\" {\nint J() { return 0; }\n}\n"),
            "F:2 G:2 H:2 I:2 J:1");
}

TEST(Functions, DeviceCodeIsMarked) {
  const auto functions = Scan("__global__ void K(float* x) {\n}\nvoid Launch() {\n}\n");
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_TRUE(functions[0].device);
  EXPECT_FALSE(functions[1].device);
}

TEST(Functions, BothBranchesCountUnlessTheyOpenTheSameBrace) {
  EXPECT_EQ(Summary("#if A\nint F() { return 1; }\n#else\nint G() { return 2; }\n#endif\n"),
            "F:1 G:1");
  EXPECT_EQ(Summary("#if A\nint F() {\n#else\nint F(int) {\n#endif\n}\n"), "F:5");
}

TEST(Functions, UnbalancedBracesAreRefused) {
  EXPECT_FALSE(FindFunctions("int F() {\n").has_value());
  EXPECT_FALSE(FindFunctions("}\n").has_value());
  EXPECT_FALSE(FindFunctions("namespace a {\n").has_value());
  EXPECT_FALSE(FindFunctions("int F(\n").has_value());
}

}  // namespace
}  // namespace thalweg::tools::lint
