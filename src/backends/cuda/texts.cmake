# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT: a table of the names and contents of FILES. Those of src/ops stand in one text, without their includes.
set(out "#include \"backends/cuda/runtime/texts.h\"\n\nnamespace tenon::cuda {\n")
string(APPEND out "const std::vector<KernelText> kernel_texts = {\n")
foreach(path ${FILES})
  get_filename_component(name ${path} NAME)
  file(READ ${path} content)
  if(path MATCHES "/src/ops/")
    string(REGEX REPLACE "#(pragma once|include[^\n]*)\n" "" content "${content}")
  endif()
  string(APPEND out "    {\"${name}\", R\"kernel(${content})kernel\"},\n")
endforeach()
string(APPEND out "};\n}  // namespace tenon::cuda\n")
file(WRITE ${OUTPUT} "${out}")
