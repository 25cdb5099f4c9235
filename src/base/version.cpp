// SPDX-License-Identifier: Apache-2.0
#include <tenon/version.h>

#define TENON_TEXT_OF(number) #number
#define TENON_TEXT(number) TENON_TEXT_OF(number)

namespace tenon {

const char* version() {
  return TENON_TEXT(TENON_VERSION_MAJOR) "." TENON_TEXT(TENON_VERSION_MINOR) "." TENON_TEXT(TENON_VERSION_PATCH);
}

int version_number() { return TENON_VERSION; }

}  // namespace tenon
