#include "telemetry/curves/tracked_run.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <random>
#include <system_error>

#include "core/system_error.hpp"
#include "core/utf8.hpp"

namespace troupe::telemetry {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string random_text(size_t count, std::string_view alphabet) {
  std::random_device device;
  std::uniform_int_distribution<size_t> place(0, alphabet.size() - 1);
  std::string out;
  for (size_t i = 0; i < count; ++i) out += alphabet[place(device)];
  return out;
}

std::string user_name() {
  std::array<char, 4096> text{};
  passwd entry{}, *found = nullptr;
  const uid_t user = ::geteuid();
  const bool has_name = ::getpwuid_r(user, &entry, text.data(), text.size(), &found) == 0 && found != nullptr;
  return has_name ? std::string(entry.pw_name) : fmt::to_string(user);
}

std::string run_seen_from(const fs::path& run, const fs::path& from) {
  if (run.empty()) return {};
  std::error_code e;
  const fs::path begin = fs::weakly_canonical(from, e), to = fs::weakly_canonical(run, e);
  const fs::path out = to.lexically_relative(begin);
  return (out.empty() ? to : out).string();
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = core::utf8_character(text);
    out += n == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, n);
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

core::result<void> make_folder(const fs::path& folder) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e || !fs::is_directory(folder))
    return core::fail(core::error_kind::io, "cannot make the folder " + folder.string() +
                                                (e ? ": " + e.message() : ": another file has that name"));
  return {};
}

std::string small_text(const fs::path& file, size_t bytes_max) {
  std::error_code e;
  if (!fs::is_regular_file(file, e) || fs::file_size(file, e) > bytes_max || e) return {};
  std::ifstream in(file, std::ios::binary);
  std::string out(bytes_max, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<size_t>(in.gcount()));
  return out;
}

core::result<void> put_text(const fs::path& file, std::string_view text) {
  const fs::path part = file.string() + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  const int why = errno;
  std::error_code e;
  if (!out) {
    fs::remove(part, e);
    return core::fail(core::kind_of_write_error(why),
                      "cannot write " + file.string() + ": " + core::system_message(why));
  }
  fs::rename(part, file, e);
  if (e) return core::fail(core::error_kind::io, "cannot write " + file.string() + ": " + e.message());
  return {};
}

}  // namespace troupe::telemetry
