// Property: a header is used only when every rule of the format holds, and each broken rule gives
// one clear error (spec/serving.md R70-R72); what the writer writes, the reader reads back.
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/test_files.h"
#include "tensor/formats.h"

namespace thalweg::checkpoint {
namespace {

struct BadHeader {
  const char* name;
  std::string file;
  const char* message;
};

std::string Length(uint64_t length, std::string rest = "") {
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(length >> (8 * i));
  return out + rest;
}

std::string One(const std::string& description, size_t data_bytes = 8) {
  return RawSafetensors("{\"w\":" + description + "}", data_bytes);
}

std::string Typed(const char* dtype, const char* shape, const char* offsets, size_t bytes = 8) {
  return One(std::string("{\"dtype\":\"") + dtype + "\",\"shape\":" + shape +
                 ",\"data_offsets\":" + offsets + "}",
             bytes);
}

std::string Two(const char* first, const char* second, size_t bytes) {
  return RawSafetensors(
      std::string("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":") + first +
          "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + second + "}}",
      bytes);
}

std::vector<BadHeader> BadHeaders() {
  return {
      {"Empty", "", "the file has 0 bytes, too few"},
      {"SevenBytes", std::string(7, 'x'), "the file has 7 bytes, too few"},
      {"LengthNear2To64", Length(UINT64_MAX, "{}"), "the limit is 100000000"},
      {"LengthNear2To63", Length(UINT64_MAX / 2, "{}"), "the limit is 100000000"},
      {"LengthBeyondFile", Length(3, "{}"), "claims 3 bytes, but only 2 follow"},
      {"LengthZero", Length(0), "the header is not valid JSON"},
      {"NotJson", RawSafetensors("hello", 0), "the header is not valid JSON"},
      {"Array", RawSafetensors("[]", 0), "the header is not a JSON object"},
      {"Trailing", RawSafetensors("{}x", 0), "the header is not valid JSON"},
      {"TooDeep", RawSafetensors(R"({"a":[[[[[]]]]]})", 0), "nested too deeply"},
      {"NotUtf8", RawSafetensors("{\"\xff\":1}", 0), "the header is not valid JSON"},
      {"DuplicateName", RawSafetensors(R"({"a":1,"a":2})", 0), "duplicate key \"a\""},
      {"LongName", RawSafetensors("{\"" + std::string(513, 'n') + "\":{}}", 0),
       "a tensor name has 513 bytes"},
      {"NotAnObject", One("7"), "tensor \"w\": its description is not an object"},
      {"NoDtype", One(R"({"shape":[8],"data_offsets":[0,8]})"), "it has no dtype"},
      {"DtypeNumber", One(R"({"dtype":3,"shape":[8],"data_offsets":[0,8]})"), "it has no dtype"},
      {"UnknownDtype", Typed("F4_E3M0", "[8]", "[0,8]"), "its dtype \"F4_E3M0\" is not one"},
      {"NoShape", One(R"({"dtype":"U8","data_offsets":[0,8]})"), "it has no shape"},
      {"NegativeDim", Typed("U8", "[-8]", "[0,8]"), "its shape must hold non-negative integers"},
      {"FractionalDim", Typed("U8", "[8.0]", "[0,8]"), "its shape must hold non-negative integers"},
      {"DimBeyond63Bits", Typed("U8", "[9223372036854775808]", "[0,8]"), "does not fit 63 bits"},
      {"NineDims", Typed("U8", "[1,1,1,1,1,1,1,1,8]", "[0,8]"), "it has 9 dimensions"},
      {"ProductWrapsToZero", Typed("U8", "[4294967296,4294967296]", "[0,0]", 0),
       "the size of its shape [4294967296, 4294967296] does not fit"},
      {"ElementSizeWraps", Typed("F32", "[4611686018427387904]", "[0,0]", 0), "does not fit"},
      {"NoOffsets", One(R"({"dtype":"U8","shape":[8]})"), "its data_offsets must be two numbers"},
      {"OneOffset", Typed("U8", "[8]", "[0]"), "its data_offsets must be two numbers"},
      {"ThreeOffsets", Typed("U8", "[8]", "[0,4,8]"), "its data_offsets must be two numbers"},
      {"NegativeOffset", Typed("U8", "[8]", "[-8,0]"), "its data_offsets must hold non-negative"},
      {"TextOffsets", Typed("U8", "[8]", "[\"0\",\"8\"]"), "its data_offsets must hold"},
      {"Backwards", Typed("U8", "[8]", "[8,0]"), "its data_offsets [8, 0] run backwards"},
      {"ShapeBelowOffsets", Typed("F32", "[256]", "[0,65536]", 65536),
       "its dtype F32 and shape [256] take 1024 bytes, its offsets give 65536"},
      {"ShapeAboveOffsets", Typed("F32", "[2]", "[0,4]", 4), "take 8 bytes, its offsets give 4"},
      {"Truncated", Typed("U8", "[9]", "[0,9]"),
       "it ends at byte 9 of the data, but the file holds"},
      {"HugeOffsets", Typed("U8", "[1]", "[18446744073709551614,18446744073709551615]"),
       "the file holds 8: it is truncated"},
      {"Overlap", Two("[0,4]", "[2,6]", 6), "tensor \"b\" overlaps tensor \"a\""},
      {"SameRange", Two("[0,4]", "[0,4]", 4), "tensor \"b\" overlaps tensor \"a\""},
      {"Hole", Two("[0,4]", "[6,10]", 10), "bytes 4 to 6 of the data, before tensor \"b\""},
      {"HiddenTail", Two("[0,4]", "[4,8]", 9), "1 bytes behind the last tensor"},
      {"HiddenHead", Two("[1,5]", "[5,9]", 9), "bytes 0 to 1 of the data, before tensor \"a\""},
  };
}

class BadHeaderTest : public testing::TestWithParam<BadHeader> {};

TEST_P(BadHeaderTest, IsOneClearError) {
  const Status status = ParseSafetensorsHeader(AsBytes(GetParam().file), "x.safetensors").status();
  ExpectError(status, GetParam().message);
  ExpectError(status, "x.safetensors: ");
}

INSTANTIATE_TEST_SUITE_P(Table, BadHeaderTest, testing::ValuesIn(BadHeaders()),
                         [](const auto& bad) { return std::string(bad.param.name); });

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  const std::string padded = RawSafetensors(R"({"__metadata__":{"format":"pt"}}   )", 0);
  EXPECT_TRUE(ParseSafetensorsHeader(AsBytes(padded), "x").ok());
  EXPECT_TRUE(ParseSafetensorsHeader(AsBytes(Typed("F32", "[]", "[0,4]", 4)), "x").ok());
  EXPECT_TRUE(ParseSafetensorsHeader(AsBytes(Typed("F32", "[0,7]", "[0,0]", 0)), "x").ok());
}

TEST(Safetensors, WriterAndReaderAgree) {
  const ScratchFolder folder;
  const std::vector<uint8_t> bytes = {1, 2, 3};
  const std::vector<float> floats = {1.5f, -2.0f};
  const std::vector<NamedTensor> tensors = {
      {"bytes", {tensor::DType::kU8, {3}, reinterpret_cast<const std::byte*>(bytes.data())}},
      {"floats", {tensor::DType::kF32, {2, 1}, reinterpret_cast<const std::byte*>(floats.data())}},
  };
  ASSERT_TRUE(WriteSafetensors(folder.path() / "x.safetensors", tensors).ok());
  const auto file = SafetensorsFile::Open(folder.path() / "x.safetensors").value();
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].name, "floats");
  EXPECT_EQ(file.Find("floats")->shape.ToString(), "[2, 1]");
  EXPECT_EQ(file.Find("floats")->as<float>()[1], -2.0f);
  EXPECT_EQ(file.Find("bytes")->as<uint8_t>()[2], 3);
  EXPECT_FALSE(file.Find("none").has_value());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Safetensors, UnfinishedFileLeavesNothing) {
  const ScratchFolder folder;
  {
    const TensorSpec spec = {"a", tensor::DType::kU8, {4}};
    auto writer = SafetensorsWriter::Begin(folder.path() / "x.safetensors", {&spec, 1}).value();
    ASSERT_TRUE(writer.Append(AsBytes("ab")).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A header whose length is odd, as writers that do not pad produce it.
TEST(Safetensors, MisalignedTensorsAreReadable) {
  const ScratchFolder folder;
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string padding(header.size() % 4 == 1 ? 0 : 5 - header.size() % 4, ' ');
  std::string file = RawSafetensors(header + padding, 8);
  const float values[2] = {0.25f, 3.0f};
  std::memcpy(file.data() + file.size() - 8, values, 8);
  ASSERT_TRUE(base::WriteFile(folder.path() / "x.safetensors", file).ok());
  const auto opened = SafetensorsFile::Open(folder.path() / "x.safetensors").value();
  const tensor::View view = opened.Find("w").value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 4, 0u);
  EXPECT_EQ(view.as<float>()[0], 0.25f);
  EXPECT_EQ(view.as<float>()[1], 3.0f);
}

}  // namespace
}  // namespace thalweg::checkpoint
