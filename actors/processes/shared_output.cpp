#include "actors/processes/shared_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/commit/commit.hpp"
#include "core/clock.hpp"
#include "core/system_error.hpp"
#include "storage/files/working_folder.hpp"

namespace troupe::actors {
namespace fs = std::filesystem;
namespace {

constexpr const char* prefix = ".troupe-output-";
constexpr auto pause = std::chrono::milliseconds(50);

/// Writes a new file with this content. Returns 0, or the system's error number if the file could not be written.
int write_new(const fs::path& path, const std::string& content) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  const bool is_whole = ::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  const int number = is_whole ? 0 : errno;
  if (::close(file) == 0 && is_whole) return 0;
  const int closing = is_whole ? errno : number;
  ::unlink(path.c_str());
  return closing != 0 ? closing : EIO;
}

void remove_leftovers(const fs::path& folder) {
  std::error_code e;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, e), end; !e && at != end; at.increment(e))
    if (at->path().filename().string().starts_with(prefix)) found.push_back(at->path());
  for (const auto& x : found) fs::remove(x, e);
}

}  // namespace

std::optional<output_sign> output_sign::put(const fs::path& folder) {
  std::error_code e;
  fs::path in = fs::absolute(folder, e);
  while (!fs::is_directory(in, e) && in != in.parent_path()) in = in.parent_path();
  remove_leftovers(in);
  const auto name = storage::to_hex(storage::random_save_id());
  output_call call{(in / (prefix + name)).string(), storage::to_hex(storage::random_save_id())};
  if (write_new(call.path, call.content) != 0) return std::nullopt;
  return output_sign(std::move(call));
}

output_sign::output_sign(output_sign&& other) noexcept : call_(std::exchange(other.call_, {})) {}
output_sign& output_sign::operator=(output_sign&& other) noexcept {
  std::swap(call_, other.call_);
  return *this;
}
output_sign::~output_sign() {
  if (!call_.path.empty()) ::unlink(call_.path.c_str());
}

core::result<void> look_for_sign(const output_call& sign, uint32_t place) {
  const std::string folder = fs::path(sign.path).parent_path().string();
  for (const int64_t until_ns = core::now_ns() + sign_ns_max;; std::this_thread::sleep_for(pause)) {
    std::ifstream in(sign.path, std::ios::binary);
    if (std::string(std::istreambuf_iterator<char>(in), {}) == sign.content) break;
    if (core::now_ns() > until_ns)
      return core::fail(
          core::error_kind::bad_input,
          fmt::format("output: wanted one folder of all hosts, '{}', got another one here: a file that the leading "
                      "process has just written there is not seen; put `output` on a file system that all hosts mount "
                      "under the same name, or set checkpoint.use_node_local_storage",
                      folder));
  }
  const std::string own = fmt::format("{}.{}", sign.path, place);
  const int number = write_new(own, sign.content);
  if (number == 0) ::unlink(own.c_str());
  // A full disk does not mean that the folder is another one: the save that cannot be written reports it.
  if (number == 0 || core::kind_of_write_error(number) == core::error_kind::no_space) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("output: wanted a folder into which all hosts may write, '{}', got: {}; let the job's "
                                "user write there",
                                folder, core::system_message(number)));
}

}  // namespace troupe::actors
