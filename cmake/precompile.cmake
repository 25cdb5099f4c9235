# Headers that nearly every file of a stage reads anyway, parsed once: more than half of a small file's compile time.
# Files include what they use all the same.
set(TENON_COMMON_HEADERS <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <span>
  <sstream> <string> <variant> <vector> <tenon/error.h> <tenon/tensor.h>)

# tenon_precompile(<target> <header>...): the common headers and these.
function(tenon_precompile target)
  target_precompile_headers(${target} PRIVATE ${TENON_COMMON_HEADERS} ${ARGN})
  target_compile_options(${target} PRIVATE -fpch-preprocess)  # for ccache
endfunction()
