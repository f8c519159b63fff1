# Run with -P: writes a C++ source that holds the bytes of files.
#   OUT: the source. HEADER: its header, with `struct EmbeddedFile {name, bytes}` and the function.
#   NAMESPACE, FUNCTION: std::span<const EmbeddedFile> NAMESPACE::FUNCTION(). FILES: names below FOLDER, comma-separated.
string(REPLACE "," ";" names "${FILES}")
set(arrays "")
set(rows "")
set(index 0)
foreach(name ${names})
  file(READ ${FOLDER}/${name} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char kFile${index}[] = {\n${bytes}};\n")
  string(APPEND rows "    {\"${name}\", {reinterpret_cast<const char*>(kFile${index}), sizeof(kFile${index})}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUT} "// Made by cmake/EmbedFiles.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {

${arrays}
const EmbeddedFile kFiles[] = {
${rows}};

}  // namespace

std::span<const EmbeddedFile> ${FUNCTION}() { return kFiles; }

}  // namespace ${NAMESPACE}
")
