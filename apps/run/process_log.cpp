#include "apps/run/process_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "apps/base/error_line.hpp"
#include "core/clock.hpp"
#include "core/system/log_file.hpp"

namespace troupe::apps {

process_log::process_log(const std::filesystem::path& output, std::string who)
    : folder_(output.empty() ? output : output / "logs"), who_(std::move(who)) {}

process_log::~process_log() {
  for (const int file : {own_, all_})
    if (file >= 0) ::close(file);
}

int process_log::opened(const std::string& name) const {
  const auto file = core::open_log(folder_ / name);
  if (!file) print_error_line("troupe: warning: this log is not written: " + file.error().text);
  return file.value_or(-1);
}

void process_log::line(const std::string& text) {
  if (!has_files()) return;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_open_, true)) {
    std::error_code e;
    std::filesystem::create_directories(folder_, e);
    std::string name = who_;
    std::erase(name, ' ');
    own_ = opened(name + ".log");
    all_ = opened("all.log");
  }
  const double now = core::unix_seconds();
  const auto seconds = static_cast<std::time_t>(now);
  std::string one_line = text;
  std::ranges::replace(one_line, '\n', ' ');
  const std::string said = fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} {}: {}\n", fmt::gmtime(seconds),
                                       static_cast<int>((now - double(seconds)) * 1000), who_, one_line);
  for (const int file : {own_, all_})
    if (file >= 0) (void)!::write(file, said.data(), said.size());
}

}  // namespace troupe::apps
