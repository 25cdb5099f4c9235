# SPDX-License-Identifier: Apache-2.0
# Headers that nearly every file of a stage reads anyway, parsed once: more than half of a small file's compile time.
# Files include what they use all the same. Where several files are compiled as one, they are parsed once for all of
# these, and a precompiled header of 100 MB costs more than it saves. No compiler cache beside them: GCC tells headers
# with "#pragma once" apart by their dates, and a precompiled header kept from another checkout has other dates: its
# structures are defined twice.
set(TENON_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <span>
  <sstream> <string> <variant> <vector> <tenon/error.h> <tenon/tensor.h>)

# tenon_precompile(<target> <header>...): the common headers and these.
function(tenon_precompile target)
  if(NOT CMAKE_UNITY_BUILD)
    target_precompile_headers(${target} PRIVATE ${TENON_COMMON_HEADERS} ${ARGN})
  endif()
endfunction()
