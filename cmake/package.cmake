# SPDX-License-Identifier: Apache-2.0
# The library for other programs: find_package(tenon) gives tenon::tenon with the headers of include/tenon and nothing else.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Shared, so that no linker drops the self-registering ops and kernels; vision, metrics and the command are no part of it.
get_property(stages GLOBAL PROPERTY TENON_STAGES)
list(REMOVE_ITEM stages tenon_vision tenon_metrics)
set(exports ${CMAKE_CURRENT_SOURCE_DIR}/cmake/tenon.exports)
add_library(tenon_library SHARED)
add_library(tenon::tenon ALIAS tenon_library)
target_link_libraries(tenon_library PRIVATE ${stages})
target_link_options(tenon_library PRIVATE -Wl,--version-script=${exports} -Wl,--no-undefined)
target_compile_features(tenon_library INTERFACE cxx_std_20)
target_include_directories(tenon_library INTERFACE
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(tenon_library PROPERTIES
  OUTPUT_NAME tenon EXPORT_NAME tenon VERSION ${PROJECT_VERSION} LINK_DEPENDS ${exports}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(TENON_SANITIZE)
  set_target_properties(tenon_library PROPERTIES EXCLUDE_FROM_ALL ON)
endif()

set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/tenon)
install(TARGETS tenon_library EXPORT tenon LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY include/tenon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT tenon NAMESPACE tenon:: FILE tenonConfig.cmake DESTINATION ${folder} COMPONENT library)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tenonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tenonConfigVersion.cmake DESTINATION ${folder} COMPONENT library)
