#include "apps/run/export_target.hpp"

#include <fmt/format.h>

#include <system_error>

#include "formats/peft/adapter_folder.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Returns the folder itself, or its nearest existing parent.
fs::path nearest_that_exists(fs::path at) {
  std::error_code e;
  while (!fs::exists(fs::symlink_status(at, e)) && at != at.parent_path()) at = at.parent_path();
  return at;
}

/// True if an export of weights into the folder of `file` replaces or removes a file of this name.
bool is_of_export(const fs::path& file) {
  const auto name = file.filename().string();
  return formats::is_weights_file_name(name) || name == formats::adapter_file_name;
}

/// True if an export into `folder` replaces weights of `path`, a folder or a file.
bool replaces(const fs::path& folder, const fs::path& path) {
  std::error_code e;
  const bool is_file = fs::is_regular_file(path, e);
  if (path.empty() || !fs::equivalent(folder, is_file ? fs::absolute(path).parent_path() : path, e)) return false;
  if (is_file) return is_of_export(path);
  bool found = false;
  for (fs::directory_iterator at(folder, e), end; !e && at != end; at.increment(e))
    found = found || is_of_export(at->path());
  return found;
}

}  // namespace

core::result<void> check_export(const fs::path& folder, uint64_t bytes, std::span<const read_weights> read) {
  const auto refused = [&](error_kind kind, const std::string& why) {
    return fail(kind, fmt::format("--export: cannot write to '{}': {}", folder.string(), why));
  };
  std::error_code e;
  const fs::path there = nearest_that_exists(fs::absolute(folder).lexically_normal());
  if (!fs::is_directory(there, e))
    return refused(error_kind::bad_input, fmt::format("'{}' is not a folder", there.string()));
  for (const auto& [key, path] : read)
    if (replaces(folder, path))
      return fail(error_kind::bad_input,
                  fmt::format("--export: '{}' cannot be replaced: the run reads its weights ({}); write to another "
                              "folder",
                              folder.string(), key));
  for (const char* name : {"config.json", "model.safetensors"})
    if (fs::is_directory(folder / name, e))
      return refused(error_kind::bad_input, fmt::format("'{}' is a folder", (folder / name).string()));
  if (const auto ok = formats::check_no_other_weights(folder); !ok) return refused(ok.error().kind, ok.error().text);
  // only tests that a file can be made there; the destructor removes the file
  if (const auto file = storage::atomic_file::create(there / "config.json"); !file)
    return refused(file.error().kind == error_kind::no_space ? error_kind::no_space : error_kind::bad_input,
                   file.error().text);
  const auto free = storage::real_files().free_bytes(there);
  if (!free) return refused(free.error().kind, free.error().text);
  if (*free < bytes)
    return refused(error_kind::no_space, fmt::format("{} bytes are needed, {} are free", bytes, *free));
  return {};
}

}  // namespace troupe::apps
