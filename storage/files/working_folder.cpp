#include "storage/files/working_folder.hpp"

#include <random>

#include "core/system/dangling_link.hpp"

namespace troupe::storage {

digest128 random_save_id() {
  std::random_device device;
  const auto word = [&] { return (static_cast<uint64_t>(device()) << 32) | device(); };
  return {word(), word()};
}

core::result<void> make_folders(file_system& files, const std::filesystem::path& path) {
  TROUPE_ASSIGN(const auto there, files.exists(path));
  if (there) return {};
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (parent != path) TROUPE_TRY(make_folders(files, parent));
  if (auto ok = files.make_folder(path); !ok) {
    const auto made_meanwhile = files.exists(path);  // another thread or process may have made it
    if (made_meanwhile && *made_meanwhile) return {};
    const auto link = core::dangling_link_in(path);
    return link ? core::result<void>(core::fail(core::error_kind::bad_input, *link)) : ok;
  }
  return files.sync_folder(parent);
}

}  // namespace troupe::storage
