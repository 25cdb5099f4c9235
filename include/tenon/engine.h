// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/buffer.h>
#include <tenon/device.h>
#include <tenon/dtype.h>
#include <tenon/limits.h>
#include <tenon/logger.h>
#include <tenon/session.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Built models.
namespace tenon {

/// Name, element type and sizes of an engine's input or output; -1 is a size that may change from run to run.
struct TensorInfo {
  std::string name;
  DType dtype = DType::undefined;
  std::vector<int64_t> shape;
};

using Shapes = std::map<std::string, std::vector<int64_t>>;

/// Sizes of the inputs that an engine is for: any from `min` to `max`, with tactics measured at `opt`.
struct Profile {
  std::string name;
  Shapes min, opt, max;
};

struct LoadOptions {
  Logger logger = {};                 ///< also of the engine's sessions
  std::optional<Limits> limits = {};  ///< of the engine: of all its sessions together
};

/// A built model: immutable, shared freely between threads, cheap to copy.
class TENON_API Engine {
 public:
  /// Written to a temporary file beside `path` and renamed. A link of this user's or root's stays one, its target is
  /// replaced; a link of another user is refused. Throws Error(io).
  void save(const std::string& path) const;
  /// The bytes that save() writes.
  Buffer serialize() const;
  /// Every byte is hashed and checked before use. Throws Error(bad_engine), Error(io). Weights of a file above 16 MiB
  /// stay mapped while anything uses them: replace it by renaming. Where it is written to, sessions cannot be made of
  /// the engine any more, and where it is cut off, runs that need what is gone throw, too: Error(io). For that the
  /// first such file of a process installs a handler of SIGBUS, which passes on what is not its own to the handler
  /// before it; with TENON_SIGBUS=off in the environment it does not, and such runs end the process. Models above 16
  /// MiB, and files beside them, are the same to the engines built of them.
  static Engine load(const std::string& path, const LoadOptions& options = {});
  /// The same from memory that the engine keeps while it lives, and that must not change meanwhile. It is copied where
  /// it is not aligned to Buffer::alignment.
  static Engine load(const Buffer& engine, const LoadOptions& options = {});
  /// The same from memory that is copied, and may go afterwards.
  static Engine load(std::span<const std::byte> engine, const LoadOptions& options = {});
  /// The engine that an open file holds, which stays open and may be closed afterwards: a regular file is mapped,
  /// whatever else is read to its end.
  static Engine load_fd(int descriptor, const LoadOptions& options = {});
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  /// The model's metadata_props, with "names" and the like.
  const std::map<std::string, std::string>& metadata() const;
  /// The same engine on another device. What it knows of other devices stays with it.
  Engine on(const Device& device) const;
  /// The device that sessions run on.
  const Device& device() const;
  /// The arithmetic it was built for.
  Precision precision() const;
  /// What it was built for; none: any sizes, tuned for one. Runs of other sizes than the profiles' throw Error(usage)
  /// naming input, axis and range.
  std::vector<Profile> profiles() const;
  /// Of each value that is carried from run to run: the output that gives it, and the input that takes it.
  std::vector<std::pair<std::string, std::string>> carried() const;
  /// What a first run takes as carried: zeros. Sizes that the model leaves open are those of the same name among the
  /// other inputs of the first run, or else 0, as of a cache that is empty; `sizes` says otherwise, by input.
  State state(const Shapes& sizes = {}) const;
  /// A session for the sizes given (the engine's own where none are). `threads`: 1 to 1024; 0: as many as the engine
  /// was built for, at most the cores there are. Throws Error(usage) for other numbers and for sizes that the model or
  /// the profiles do not have, Error(resource) where memory or threads are short.
  Session session(int threads = 0, const Shapes& shapes = {}) const;
  /// A session of that profile alone, ready for its best sizes. Throws Error(usage) for a name that no profile has.
  Session session(const std::string& profile, int threads = 0) const;
  /// The same with the arena of `other`, a session on the same GPU whose arena is at least as large: for engines that
  /// run in turn, as a detector and the classifier of what it finds. Runs of the two wait for one another, but those of
  /// enqueue(), which the caller orders; device_output() holds until the other runs. Throws Error(usage) where the
  /// other's arena is smaller or elsewhere.
  Session session(Session& other, const Shapes& shapes = {}) const;

 private:
  friend struct EngineAccess;
  struct Impl;
  explicit Engine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

inline Engine load(const std::string& path, const LoadOptions& options = {}) { return Engine::load(path, options); }
inline Engine load(const Buffer& engine, const LoadOptions& options = {}) { return Engine::load(engine, options); }
inline Engine load(std::span<const std::byte> engine, const LoadOptions& options = {}) {
  return Engine::load(engine, options);
}
inline Engine load_fd(int descriptor, const LoadOptions& options = {}) { return Engine::load_fd(descriptor, options); }

}  // namespace tenon
