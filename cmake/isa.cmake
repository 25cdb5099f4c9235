# SPDX-License-Identifier: Apache-2.0
# Compiles kernel sources once per instruction set. Each copy sees TENON_ISA_NAMESPACE and its own -m flags,
# so that one binary holds all of them and picks at run time. `fused` does what fused multiply-add does without such
# instructions, for the same bits on old processors: its speed does not count, and at -O3 it would take the longest.
set(TENON_ISA_FLAGS_portable -msse4.2)
set(TENON_ISA_FLAGS_fused -msse4.2 -DTENON_FUSED_STEPS)
set(TENON_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(TENON_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512)
set(TENON_ISA_FLAGS_avx512_bf16 ${TENON_ISA_FLAGS_avx512} -mavx512bf16)

set(TENON_ISA_FLAGS_amx ${TENON_ISA_FLAGS_avx512_bf16} -mavx512vnni -mamx-tile -mamx-int8 -mamx-bf16)

set(TENON_ISA_LEVEL_fused -O1)

# tenon_isa_sources(<target> <isa>... FILES <file.cpp>...): adds every file once for each set, optimised in all build
# types. Call it in the directory that defines the target: source properties are local to a directory.
function(tenon_isa_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" FILES)
  foreach(file ${arg_FILES})
    get_filename_component(path ${file} ABSOLUTE)
    get_filename_component(name ${file} NAME_WE)
    foreach(isa ${arg_UNPARSED_ARGUMENTS})
      set(copy ${CMAKE_CURRENT_BINARY_DIR}/isa/${name}_${isa}.cpp)
      set(TENON_ISA_SOURCE ${path})
      file(CONFIGURE OUTPUT ${copy} CONTENT "#include \"@TENON_ISA_SOURCE@\"\n" @ONLY)
      set(level -O3)
      if(DEFINED TENON_ISA_LEVEL_${isa})
        set(level ${TENON_ISA_LEVEL_${isa}})
      endif()
      set_source_files_properties(${copy} PROPERTIES
        COMPILE_OPTIONS "${TENON_ISA_FLAGS_${isa}};${level};-Wno-maybe-uninitialized;-Wno-uninitialized;-fno-math-errno;-fno-trapping-math;-ffp-contract=off"
        COMPILE_DEFINITIONS TENON_ISA_NAMESPACE=${isa}
        OBJECT_DEPENDS ${path}
        SKIP_UNITY_BUILD_INCLUSION ON)
      target_sources(${target} PRIVATE ${copy})
    endforeach()
  endforeach()
endfunction()
