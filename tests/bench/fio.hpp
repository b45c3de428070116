// Runs fio as the reference of Troupe's storage benchmarks: sequential transfers of 1 MiB from huge pages, with direct
// I/O.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace troupe::tests {

/// Reserves the huge pages that fio's buffers need, which only root may do; the destructor restores the previous number
/// of pages.
class fio_room {
 public:
  fio_room() {
    if (std::system("fio --version >/dev/null 2>&1") != 0) {
      why_not_ = "not installed";
      return;
    }
    std::ifstream(path) >> before_;
    if (before_ >= wanted) return;
    set(wanted);
    unsigned now = 0;
    std::ifstream(path) >> now;
    if (now < wanted) why_not_ = "wanted vm.nr_hugepages of 64, which root may set";
  }
  ~fio_room() {
    if (before_ < wanted) set(before_);
  }
  fio_room(const fio_room&) = delete;
  fio_room& operator=(const fio_room&) = delete;
  /// Returns a sentence that states why fio cannot run; empty if it can.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  static constexpr const char* path = "/proc/sys/vm/nr_hugepages";
  static constexpr unsigned wanted = 64;
  static void set(unsigned pages) { std::ofstream(path) << pages << std::flush; }
  unsigned before_ = wanted;
  std::string why_not_;
};

/// Runs fio and returns its rate in GB/s; `rw` is `read` or `write`. Empty if fio fails.
inline std::optional<double> fio_rate(const std::filesystem::path& path, const std::string& rw, unsigned depth,
                                      uint64_t bytes) {
  const std::string command = fmt::format(
      "fio --name=bench --filename='{}' --rw={} --bs=1M --direct=1 --ioengine=io_uring --mem=mmaphuge --iodepth={} "
      "--size={} --output-format=json 2>/dev/null",
      path.string(), rw, depth, bytes);
  FILE* out = ::popen(command.c_str(), "r");
  if (out == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t got = std::fread(part.data(), 1, part.size(), out)) text.append(part.data(), got);
  if (::pclose(out) != 0) return std::nullopt;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("jobs")) return std::nullopt;
  return json["jobs"][0][rw].value("bw_bytes", 0.0) / 1e9;
}

}  // namespace troupe::tests
