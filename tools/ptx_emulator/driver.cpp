// SPDX-License-Identifier: Apache-2.0
// The functions of libcuda.so.1, by the declarations in backends/cuda/runtime/driver.h. Memory of the device is the
// host's.
#include "backends/cuda/runtime/driver.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "cards.h"
#include "cubin.h"
#include "stream.h"

namespace tenon::ptx_emulator {
namespace {

using namespace cuda;

constexpr int newest_driver = 13000;
constexpr int invalid = 1, no_image = 209, not_found = 500, out_of_resources = 701;
constexpr int64_t registers_of_block = 65536, most_grid_y = 65535;

thread_local int current = 0;
thread_local std::string words;  // of the last fault
std::mutex mutex;

int fault(int result, std::string text) {
  words = std::move(text);
  return result;
}

const Card& card_of(int device) { return card_that_runs() ? *card_that_runs() : cards[device]; }
const Card& card() { return card_of(current); }
int capability() { return card().major * 10 + card().minor; }
std::string name_of_card() {
  return "compute capability " + std::to_string(card().major) + "." + std::to_string(card().minor);
}

/// Pages as a driver takes them: lists of more than half a page have pages of their own, others share.
struct Memory {
  std::map<Address, size_t> lists;
  std::map<Address, size_t> of_host;  // that a device may touch, too
  std::map<Address, Address> ranges;  // where they were mapped
  int64_t pages = 0, shared_bytes = 0;
  static bool is_large(size_t bytes) { return static_cast<int64_t>(bytes) > page_bytes / 2; }
  static int64_t pages_of(size_t bytes) { return (static_cast<int64_t>(bytes) + page_bytes - 1) / page_bytes; }
  void count(size_t bytes, int sign) {
    if (is_large(bytes)) pages += sign * pages_of(bytes);
    else shared_bytes += sign * static_cast<int64_t>(bytes);
  }
  int64_t taken() const { return (pages + pages_of(static_cast<size_t>(shared_bytes))) * page_bytes; }
} memory;

/// Where kernels run, memory that nobody has written is no numbers; but for lists so large that the host would feel it.
void leave_unwritten(void* place, size_t bytes) {
  constexpr int no_number = 0xff;
  constexpr size_t most = size_t{64} << 20;
  if (card_that_runs() && bytes <= most) std::memset(place, no_number, bytes);
}

int allocate(Address* address, size_t bytes) {
  const std::lock_guard lock(mutex);
  if (memory.taken() + static_cast<int64_t>(bytes) > memory_bytes) return fault(constants::out_of_memory, "no memory");
  void* place = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!place) return fault(constants::out_of_memory, "no memory of the host");
  *address = reinterpret_cast<Address>(place);
  leave_unwritten(place, bytes);
  memory.lists[*address] = bytes;
  memory.count(bytes, 1);
  return 0;
}

int release(Address address) {
  const std::lock_guard lock(mutex);
  const auto list = memory.lists.find(address);
  if (list == memory.lists.end()) return fault(invalid, "no list begins there");
  memory.count(list->second, -1);
  memory.lists.erase(list);
  std::free(reinterpret_cast<void*>(address));
  return 0;
}

/// Pages behind a range of addresses.
int put(Address at, size_t bytes) {
  const std::lock_guard lock(mutex);
  if (at % page_bytes || bytes % page_bytes || bytes == 0) return fault(invalid, "no whole pages");
  if (memory.taken() + static_cast<int64_t>(bytes) > memory_bytes) return fault(constants::out_of_memory, "no memory");
  if (mprotect(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE)) return fault(invalid, "no range there");
  leave_unwritten(reinterpret_cast<void*>(at), bytes);
  memory.lists[at] = bytes;
  memory.count(bytes, 1);
  return 0;
}

int remove(Address at, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto list = memory.lists.find(at);
  if (list == memory.lists.end() || list->second != bytes) return fault(invalid, "not what was put there at once");
  memory.count(bytes, -1);
  memory.lists.erase(list);
  mprotect(reinterpret_cast<void*>(at), bytes, PROT_NONE);
  return 0;
}

int reserve(Address* begin, size_t bytes) {
  // With a page more, for one to begin at a page's boundary.
  void* place = mmap(nullptr, bytes + page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return fault(constants::out_of_memory, "no addresses");
  const auto at = reinterpret_cast<Address>(place);
  *begin = (at + page_bytes - 1) / page_bytes * page_bytes;
  const std::lock_guard lock(mutex);
  memory.ranges[*begin] = at;
  return 0;
}

int unreserve(Address begin, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto range = memory.ranges.find(begin);
  if (range == memory.ranges.end()) return fault(invalid, "no range begins there");
  munmap(reinterpret_cast<void*>(range->second), bytes + page_bytes);
  memory.ranges.erase(range);
  return 0;
}

/// Whether bytes are of one list, or of several without a gap: a range of addresses is filled piece by piece.
bool are_listed(Address at, size_t bytes) {
  const Address end = at + bytes;
  while (at < end) {
    const auto after = memory.lists.upper_bound(at);
    if (after == memory.lists.begin()) return false;
    const auto& [begin, size] = *std::prev(after);
    if (at >= begin + size) return false;
    at = begin + size;
  }
  return true;
}

/// Writes bytes of the device; where kernels run, those of a list.
template <class Work>
int on_list(Address at, size_t bytes, const Work& work) {
  if (card_that_runs()) {
    const std::lock_guard lock(mutex);
    if (!are_listed(at, bytes))
      return fault(invalid, std::to_string(bytes) + " bytes of the device that are of no list");
  }
  work(reinterpret_cast<void*>(at));
  return 0;
}

int allocate_of_host(void** place, size_t bytes) {
  if (!(*place = std::malloc(bytes))) return fault(constants::out_of_memory, "no memory of the host");
  const std::lock_guard lock(mutex);
  memory.of_host[reinterpret_cast<Address>(*place)] = bytes;
  return 0;
}

int release_of_host(void* place) {
  const std::lock_guard lock(mutex);
  memory.of_host.erase(reinterpret_cast<Address>(place));
  return std::free(place), 0;
}

/// What is loaded; devices of a process stay to its end, and what they have loaded with them.
std::map<Module, std::unique_ptr<Image>> images;

int load(Module* module, const void* bytes) {
  std::unique_ptr<Image> image;
  try {
    image = read_image(bytes);
  } catch (const std::exception& error) {
    return fault(no_image, error.what());
  }
  if (!image) return fault(no_image, "it is no code");
  if (image->is_ptx ? image->capability > capability() : image->capability != capability())
    return fault(no_image, "code for " + std::to_string(image->capability) + " on " + name_of_card());
  *module = reinterpret_cast<Module>(image.get());
  const std::lock_guard lock(mutex);
  images[*module] = std::move(image);
  return 0;
}

std::string text_of(const Kernel& kernel) {
  return std::to_string(kernel.registers) + " registers, " + std::to_string(kernel.static_shared_bytes) +
         " bytes of static shared memory, at most " + std::to_string(kernel.most_threads) + " threads";
}

int allow_shared(Kernel& kernel, int bytes) {
  if (bytes + kernel.static_shared_bytes > card().shared_bytes)
    return fault(invalid, std::to_string(bytes) + " bytes of shared memory are more than " + name_of_card() +
                              " has: " + text_of(kernel));
  kernel.most_dynamic_bytes = bytes;
  return 0;
}

int launch(const LaunchConfig& config, const Kernel& kernel) {
  const int64_t threads = int64_t{config.block_x} * config.block_y * config.block_z;
  const int64_t warps = (threads + 31) / 32, registers = (kernel.registers + 7) / 8 * 8;
  const auto shared = static_cast<int>(config.shared_bytes);
  const std::string of = " on " + name_of_card() + ": " + text_of(kernel);
  if (config.grid_x == 0 || config.grid_y == 0 || config.grid_z == 0 || threads == 0)
    return fault(invalid, "an empty grid" + of);
  if (config.grid_x > 0x7fffffffu || config.grid_y > most_grid_y || config.grid_z > most_grid_y)
    return fault(invalid, "too large a grid" + of);
  if (threads > kernel.most_threads || threads > 1024) return fault(invalid, std::to_string(threads) + " threads" + of);
  if (warps * 32 * registers > registers_of_block)
    return fault(out_of_resources, std::to_string(threads) + " threads have not enough registers" + of);
  // Without being asked for more, a block has 48 KB in all.
  const int most = kernel.most_dynamic_bytes > 0 ? kernel.most_dynamic_bytes : (48 << 10) - kernel.static_shared_bytes;
  if (shared > most || shared + kernel.static_shared_bytes > card().shared_bytes)
    return fault(invalid, std::to_string(shared) + " bytes of shared memory" + of);
  if (config.grid_x % static_cast<unsigned>(kernel.cluster))
    return fault(invalid, "a grid of " + std::to_string(config.grid_x) + " in clusters of " +
                              std::to_string(kernel.cluster) + of);
  if (config.attribute_count > 0 && capability() < 90) return fault(invalid, "a launch attribute" + of);
  return 0;
}

/// What a kernel may touch: all lists, and its program's own variables.
std::vector<Range> ranges_of(const Image& image) {
  std::vector<Range> ranges;
  for (const auto* lists : {&memory.lists, &memory.of_host})
    for (const auto& [at, bytes] : *lists) ranges.push_back({at, at + bytes});
  for (const auto& [name, bytes] : image.constants) {
    const auto at = reinterpret_cast<Address>(bytes.data());
    ranges.push_back({at, at + bytes.size()});
  }
  return ranges;
}

int run_now(Kernel& kernel, const LaunchConfig& config, const std::vector<char>& arguments) {
  const std::lock_guard lock(mutex);
  if (!kernel.function) return fault(no_image, "the emulator runs PTX alone, no machine code");
  std::string why;
  const int result = run_emulated(kernel, config, arguments, ranges_of(*kernel.image), why);
  return result == 0 ? 0 : fault(result, std::move(why));
}

int launch_or_run(const LaunchConfig& config, Kernel& kernel, void** arguments) {
  {
    const std::lock_guard lock(mutex);
    if (const int result = launch(config, kernel)) return result;
  }
  if (!card_that_runs()) return 0;
  return on_stream(
      [&kernel, config, bytes = arguments_of(kernel, arguments)] { return run_now(kernel, config, bytes); });
}

template <class Handle>
int give(Handle* handle) {
  static int something;
  *handle = reinterpret_cast<Handle>(&something);
  return 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }
/// NVRTC asks for one as it compiles, and does without.
int cuGetExportTable(const void** table, const void*) { return *table = nullptr, not_found; }
int cuDriverGetVersion(int* version) {
  const char* asked = std::getenv("TENON_PTX_EMULATOR_DRIVER");
  return *version = asked ? std::atoi(asked) : newest_driver, 0;
}
int cuGetErrorName(int result, const char** text) { return *text = name_of(result), 0; }
int cuGetErrorString(int, const char** text) { return *text = words.c_str(), 0; }
int cuDeviceGetCount(int* count) { return *count = card_that_runs() ? 1 : std::size(cards), 0; }
int cuDeviceGet(int* device, int index) { return *device = index, 0; }
int cuDeviceGetName(char* name, int size, int device) {
  std::snprintf(name, static_cast<size_t>(size), "%s (emulated)", card_of(device).name);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = memory_bytes, 0; }
int cuDeviceGetAttribute(int* value, int which, int device) {
  const Card& card = card_of(device);
  switch (which) {
    case constants::attribute_multiprocessors: return *value = card.multiprocessors, 0;
    case constants::attribute_l2_bytes: return *value = static_cast<int>(card.l2_bytes), 0;
    case constants::attribute_major: return *value = card.major, 0;
    case constants::attribute_minor: return *value = card.minor, 0;
    case constants::attribute_shared_bytes: return *value = card.shared_bytes, 0;
    case constants::attribute_ranges: return *value = card.has_ranges, 0;
    default: return fault(invalid, "attribute " + std::to_string(which));
  }
}
int cuDevicePrimaryCtxRetain(Context* context, int device) {
  *context = reinterpret_cast<Context>(static_cast<intptr_t>(device) + 1);
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(Context context) { return current = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1, 0; }
int cuCtxGetCurrent(Context* context) {
  return *context = reinterpret_cast<Context>(static_cast<intptr_t>(current) + 1), 0;
}
int cuCtxSynchronize() { return 0; }
int cuMemGetInfo_v2(size_t* free, size_t* all) {
  const std::lock_guard lock(mutex);
  *all = memory_bytes, *free = static_cast<size_t>(memory_bytes - memory.taken());
  return 0;
}
int cuMemAlloc_v2(Address* address, size_t bytes) { return allocate(address, bytes); }
int cuMemFree_v2(Address address) { return release(address); }
int cuMemGetAllocationGranularity(size_t* bytes, const MemoryKind*, int) { return *bytes = page_bytes, 0; }
int cuMemAddressReserve(Address* begin, size_t bytes, size_t, Address, unsigned long long) {
  return reserve(begin, bytes);
}
int cuMemAddressFree(Address begin, size_t bytes) { return unreserve(begin, bytes); }
int cuMemCreate(unsigned long long* made, size_t bytes, const MemoryKind*, unsigned long long) {
  const std::lock_guard lock(mutex);
  if (memory.taken() + static_cast<int64_t>(bytes) > memory_bytes) return fault(constants::out_of_memory, "no memory");
  return *made = bytes, 0;
}
int cuMemRelease(unsigned long long) { return 0; }
int cuMemMap(Address at, size_t bytes, size_t, unsigned long long made, unsigned long long) {
  return made == bytes ? put(at, bytes) : fault(invalid, "memory of another size");
}
int cuMemUnmap(Address at, size_t bytes) { return remove(at, bytes); }
int cuMemSetAccess(Address, size_t, const MemoryAccess* access, size_t) {
  return access->place.type == constants::memory_on_device && access->place.device == current
             ? 0
             : fault(invalid, "memory of another device");
}
int cuMemAllocHost_v2(void** place, size_t bytes) { return allocate_of_host(place, bytes); }
int cuMemFreeHost(void* place) { return release_of_host(place); }
int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  return on_list(to, bytes, [&](void* place) { std::memcpy(place, from, bytes); });
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream) {
  return on_stream([=] { return cuMemcpyHtoD_v2(to, from, bytes); });
}
int cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), 0;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream) {
  return on_stream([=] { return cuMemcpyDtoH_v2(to, from, bytes); });
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream) {
  return on_stream([=] { return cuMemcpyHtoD_v2(to, reinterpret_cast<const void*>(from), bytes); });
}
int cuMemsetD8_v2(Address to, unsigned char value, size_t bytes) {
  return on_list(to, bytes, [&](void* place) { std::memset(place, value, bytes); });
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream) {
  return on_stream([=] { return cuMemsetD8_v2(to, value, bytes); });
}
int cuStreamCreate(Stream* stream, unsigned) { return give(stream); }
int cuStreamDestroy_v2(Stream) { return 0; }
int cuStreamSynchronize(Stream) { return 0; }
int cuStreamWaitEvent(Stream, Event, unsigned) { return 0; }
int cuEventCreate(Event* event, unsigned) { return give(event); }
int cuEventDestroy_v2(Event) { return 0; }
int cuEventRecord(Event, Stream) { return 0; }
int cuEventSynchronize(Event) { return 0; }
int cuEventElapsedTime(float* milliseconds, Event, Event) { return *milliseconds = 0.01f, 0; }
int cuModuleLoadData(Module* module, const void* bytes) { return load(module, bytes); }
int cuModuleUnload(Module module) {
  const std::lock_guard lock(mutex);
  return images.erase(module) ? 0 : fault(invalid, "no module");
}
int cuModuleGetFunction(Function* function, Module module, const char* name) {
  auto& kernels = reinterpret_cast<Image*>(module)->kernels;
  const auto kernel = kernels.find(name);
  if (kernel == kernels.end()) return fault(not_found, "there is no kernel " + std::string(name));
  *function = reinterpret_cast<Function>(&kernel->second);
  return 0;
}
int cuModuleGetGlobal_v2(Address* address, size_t* bytes, Module module, const char* name) {
  auto& constants = reinterpret_cast<Image*>(module)->constants;
  const auto found = constants.find(name);
  if (found == constants.end()) return fault(not_found, "there is no array " + std::string(name));
  *address = reinterpret_cast<Address>(found->second.data()), *bytes = found->second.size();
  return 0;
}
int cuFuncSetAttribute(Function function, int which, int value) {
  if (which != constants::function_max_dynamic_shared) return fault(invalid, "attribute " + std::to_string(which));
  const std::lock_guard lock(mutex);
  return allow_shared(*reinterpret_cast<Kernel*>(function), value);
}
int cuLaunchKernelEx(const LaunchConfig* config, Function function, void** arguments, void**) {
  return launch_or_run(*config, *reinterpret_cast<Kernel*>(function), arguments);
}
int cuTensorMapEncodeTiled(TensorMap* map, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                           const uint32_t*, int, int, int, int) {
  return *map = {}, 0;
}
int cuTensorMapEncodeIm2col(TensorMap* map, int, uint32_t, void*, const uint64_t*, const uint64_t*, const int*,
                            const int*, uint32_t, uint32_t, const uint32_t*, int, int, int, int) {
  return *map = {}, 0;
}

}  // extern "C"

}  // namespace tenon::ptx_emulator
