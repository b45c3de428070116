#include "models/compress/hidden_windows.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/system_error.hpp"

namespace troupe::models {
namespace {

tl::unexpected<core::error> failed(const char* what, const std::filesystem::path& path, int error) {
  return core::fail(core::error_kind::io, std::string("cannot ") + what + " '" + path.string() +
                                              "': " + (error != 0 ? core::system_message(error) : "it is too short"));
}

}  // namespace

hidden_windows::hidden_windows(std::filesystem::path folder, std::string name, uint64_t window_elements)
    : folder_(std::move(folder)), name_(std::move(name)), window_elements_(window_elements) {}

hidden_windows::hidden_windows(hidden_windows&& other) noexcept
    : folder_(std::move(other.folder_)),
      name_(std::move(other.name_)),
      window_elements_(other.window_elements_),
      files_(std::exchange(other.files_, {-1, -1})) {}

hidden_windows::~hidden_windows() {
  for (const int fd : files_)
    if (fd >= 0) ::close(fd);
}

std::filesystem::path hidden_windows::path_of(uint64_t step) const {
  return folder_ / (name_ + (step % 2 == 0 ? "-0.bin" : "-1.bin"));
}

core::result<hidden_windows> hidden_windows::open(const std::filesystem::path& folder, const std::string& name,
                                                  uint64_t window_elements) {
  hidden_windows out(folder, name, window_elements);
  for (uint64_t i = 0; i < out.files_.size(); ++i) {
    out.files_[i] = ::open(out.path_of(i).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (out.files_[i] < 0) return failed("write", out.path_of(i), errno);
  }
  return out;
}

core::result<void> hidden_windows::read(uint64_t step, uint64_t first, std::span<float> out) const {
  auto bytes = std::as_writable_bytes(out);
  auto at = static_cast<off_t>(first * window_elements_ * sizeof(float));
  while (!bytes.empty()) {
    const ssize_t n = ::pread(files_[step % 2], bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("read", path_of(step), n < 0 ? errno : 0);
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += n;
  }
  return {};
}

core::result<void> hidden_windows::write(uint64_t step, uint64_t first, std::span<const float> in) const {
  auto bytes = std::as_bytes(in);
  auto at = static_cast<off_t>(first * window_elements_ * sizeof(float));
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(files_[(step + 1) % 2], bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write", path_of(step + 1), errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += n;
  }
  return {};
}

core::result<void> hidden_windows::sync(uint64_t step) const {
  return ::fdatasync(files_[(step + 1) % 2]) == 0 ? core::result<void>() : failed("write", path_of(step + 1), errno);
}

}  // namespace troupe::models
