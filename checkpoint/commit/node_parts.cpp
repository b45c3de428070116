#include "checkpoint/commit/node_parts.hpp"

#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <utility>

#include "checkpoint/commit/open.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "checkpoint/native/native_source.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Represents a file on another machine's disk; opening it returns an error that names the machine.
class file_of_host final : public formats::source_view {
 public:
  file_of_host(fs::path path, std::string host) : path_(std::move(path)), host_(std::move(host)) {}
  [[nodiscard]] core::result<std::unique_ptr<storage::input_file>> open(storage::file_system&) const override {
    return fail(error_kind::bad_input, fmt::format("'{}': the file is not on this machine: {} wrote it to its own disk "
                                                   "(checkpoint.use_node_local_storage); copy it here first",
                                                   path_.string(), host_));
  }
  [[nodiscard]] bool is_compressed() const override { return false; }

 private:
  fs::path path_;
  std::string host_;
};

/// Reads the manifest in `path`, or that of the checkpoint that `latest` in `path` names; nothing if there is no
/// `latest` or its digest differs from that of the manifest.
core::result<std::optional<checkpoint_folder>> folder_at(storage::file_system& files, const fs::path& path) {
  TROUPE_ASSIGN(const auto itself, files.exists(path / manifest_file_name));
  auto folder = path;
  std::optional<storage::digest128> seal;
  if (!itself) {
    TROUPE_ASSIGN(const auto latest, read_latest(files, path));
    if (!latest) return std::nullopt;
    folder = path / latest->folder;
    seal = latest->seal;
  }
  TROUPE_ASSIGN(auto known, read_manifest(files, folder));
  if (seal && known.seal != *seal) return std::nullopt;
  return known;
}

}  // namespace

fs::path node_parts_folder(const fs::path& root, storage::digest128 save_id) {
  return root / node_parts_name / storage::to_hex(save_id);
}

std::map<std::string, std::string> node_writers_in(const std::string& text) {
  std::map<std::string, std::string> out;
  std::istringstream lines(text);
  for (std::string file, host; lines >> file >> host;) out[file] = host;
  return out;
}

core::result<std::optional<formats::tensor_source>> open_node_parts(storage::file_system& files, const fs::path& path) {
  TROUPE_ASSIGN(const auto known, folder_at(files, path));
  if (!known) return std::nullopt;
  const auto& content = known->content;
  const fs::path parts =
      node_parts_folder(fs::absolute(known->folder).lexically_normal().parent_path(), content.save_id);
  const auto has_list = files.exists(parts / node_writers_name);
  if (!has_list || !*has_list) return std::nullopt;
  TROUPE_ASSIGN(const auto text, storage::read_small_file(files, parts / node_writers_name, max_node_writers_bytes));
  const auto writers = node_writers_in(text);
  auto out = source_of(*known);
  for (size_t i = 0; i < out.files.size(); ++i) {
    auto& f = out.files[i];
    const fs::path part = parts / content.files[i].name;
    const auto in_parts = files.exists(part), in_folder = files.exists(f.path);
    if (in_parts && *in_parts) {
      f.path = part;
    } else if (!in_folder || !*in_folder) {
      const auto at = writers.find(content.files[i].name);
      f.host = at == writers.end() ? "an unknown host" : "host " + at->second;
      f.view = std::make_shared<file_of_host>(f.path, f.host);
    }
  }
  return out;
}

}  // namespace troupe::checkpoint
