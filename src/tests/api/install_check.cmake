# Installs into a fresh folder, then builds and runs a C and a C++ program against what is there alone:
# headers, library and checkpoint are complete, and the library exports nothing but its interface.
# Variables: BUILD, SOURCE, WORK, CC, CXX, NM.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/usr
                COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
file(GLOB library ${WORK}/usr/lib*/libthalweg.so ${WORK}/usr/lib*/*/libthalweg.so)
if(NOT library)
  message(FATAL_ERROR "libthalweg.so was not installed")
endif()
get_filename_component(folder ${library} DIRECTORY)

function(build_and_run name compiler)
  execute_process(COMMAND ${compiler} ${ARGN} -Wall -Wextra -Wpedantic -Werror -I${WORK}/usr/include -L${folder}
                          -lthalweg -Wl,-rpath,${folder} -o ${WORK}/${name} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${WORK}/${name} WORKING_DIRECTORY ${WORK} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
build_and_run(c_program ${CC} -std=c11 ${SOURCE}/src/tests/api/c_api_test.c)
build_and_run(cc_program ${CXX} -std=c++20 ${SOURCE}/examples/offline_inference.cc)
execute_process(COMMAND ${WORK}/usr/bin/thalweg run --temperature 0 "What does courage mean?"
                COMMAND_ERROR_IS_FATAL ANY)

execute_process(COMMAND ${NM} -D --defined-only -C ${library} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" symbols "${symbols}")
foreach(symbol ${symbols})
  if(NOT symbol MATCHES " thalweg_[a-z_]+@@THALWEG_1$| A THALWEG_1|\
thalweg::(LLM|OutputStream)::|thalweg::(SamplingParams::FromJson|ConversationFromJson|RequestOutput::ToJson|ErrorCodeName|Version|detail::FailAccess)")
    message(FATAL_ERROR "libthalweg.so exports what is no part of its interface: ${symbol}")
  endif()
endforeach()
