# SPDX-License-Identifier: Apache-2.0
# Installs the library into a fresh folder, and against it: builds and runs samples/api and a page of the public API,
# links every public function, runs a C program, and the same from Python by ctypes.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component library --prefix ${WORK}/prefix)
file(GLOB_RECURSE headers RELATIVE ${WORK}/prefix/include ${WORK}/prefix/include/*)
foreach(header ${headers})
  if(NOT header MATCHES "^tenon/[a-z_]+\\.(h|hpp)$")
    message(FATAL_ERROR "${header} is no public header")
  endif()
endforeach()
file(GLOB_RECURSE library ${WORK}/prefix/*/libtenon.so)
get_filename_component(folder ${library} DIRECTORY)
set(link -I${WORK}/prefix/include -L${folder} -Wl,-rpath,${folder} -ltenon)

foreach(program ${SOURCE}/samples/api ${SOURCE}/tests/package/program)
  get_filename_component(name ${program} NAME)
  run(${CMAKE_COMMAND} -S ${program} -B ${WORK}/${name} -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_FLAGS=-Wall\ -Wextra\ -Werror)
  run(${CMAKE_COMMAND} --build ${WORK}/${name})
  run(${CMAKE_COMMAND} -E env XDG_CACHE_HOME=${WORK} ${WORK}/${name}/first ${SOURCE}/samples/detector.onnx
    ${WORK}/${name}.tenon)
  if(NOT output MATCHES "output0 f32 1x13x2100")
    message(FATAL_ERROR "${program} printed\n${output}")
  endif()
  if(name STREQUAL "api" AND NOT output MATCHES "ms a run, mean of [0-9]+ after [0-9]+ for warm-up")
    message(FATAL_ERROR "${program} timed a cold run\n${output}")
  endif()
endforeach()

# A function without its mark is hidden, and this does not link.
run(${PYTHON} ${SOURCE}/tools/public_api.py ${WORK}/prefix/include)
file(WRITE ${WORK}/uses.cpp "${output}")
run(${COMPILER} -std=c++20 -Wall -Wextra -Werror ${WORK}/uses.cpp -o ${WORK}/uses ${link})
run(${WORK}/uses)
if(NOT output MATCHES "^([0-9]+) of ([0-9]+) public functions" OR NOT CMAKE_MATCH_1 EQUAL CMAKE_MATCH_2)
  message(FATAL_ERROR "uses printed\n${output}")
endif()

run(${C_COMPILER} -std=c11 -Wall -Wextra -pedantic -Werror ${SOURCE}/tests/package/c_program/main.c
  -o ${WORK}/c_program ${link} -lm)
run(${WORK}/c_program ${SOURCE}/samples/detector.onnx ${WORK}/c.tenon)
if(NOT output MATCHES "output0 type 1 1x13x2100\n")
  message(FATAL_ERROR "c_program printed\n${output}")
endif()
run(${PYTHON} ${SOURCE}/tests/package/ctypes_test.py ${library} ${WORK}/c.tenon)
