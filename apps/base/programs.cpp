#include "apps/base/programs.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>

#include <algorithm>
#include <vector>

#include "core/source_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view own_version = TROUPE_VERSION;
constexpr std::string_view trainer = "troupe-train";
constexpr uint64_t most_version_bytes = 4096;

std::string_view without_build(std::string_view version) { return version.substr(0, version.find('+')); }

/// Returns the folders into which pip may install the packages whose programs it installs into `here`: those of a
/// virtual environment, of a user, of Debian's own Python, and of `pip install --target`.
std::vector<fs::path> package_folders(const fs::path& here) {
  const fs::path base = here.parent_path();
  std::vector<fs::path> out;
  for (const char* lib : {"lib", "lib64"}) {
    std::error_code e;
    for (fs::directory_iterator at(base / lib, e), end; !e && at != end; at.increment(e))
      if (at->path().filename().string().starts_with("python3"))
        for (const char* packages : {"site-packages", "dist-packages"}) out.push_back(at->path() / packages);
  }
  std::ranges::sort(out);
  out.push_back(base);
  return out;
}

/// Returns those of package_folders() that contain the package `troupe` of this version with the program `name`.
std::vector<fs::path> packages_with(const fs::path& here, std::string_view name) {
  std::vector<fs::path> out;
  for (const auto& folder : package_folders(here)) {
    std::error_code e;
    if (fs::is_regular_file(folder / "troupe" / "bin" / name, e) &&
        fs::is_directory(folder / fmt::format("troupe-{}.dist-info", own_version), e))
      out.push_back(folder);
  }
  return out;
}

core::error no_program(const fs::path& here, std::string_view name) {
  return {error_kind::bad_input,
          fmt::format("the program {} is not in '{}': install Debian's package `troupe-train`, or Troupe's wheel", name,
                      here.string())};
}

}  // namespace

fs::path own_folder() {
  std::error_code e;
  if (auto own = fs::read_symlink("/proc/self/exe", e); !e) return own.parent_path();
  // path with which the kernel started this program; used if /proc is missing
  const auto* const started_as = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return started_as == nullptr ? fs::path() : fs::canonical(started_as, e).parent_path();
}

std::string torch_version_in(const fs::path& folder) {
  const auto text = core::read_file(folder / "version.py", most_version_bytes);
  if (!text) return "";
  constexpr std::string_view before = "\n__version__ = '";
  const auto at = text->find(before);
  if (at == std::string::npos) return "";
  const auto version = std::string_view(*text).substr(at + before.size());
  return std::string(without_build(version.substr(0, version.find('\''))));
}

core::result<fs::path> other_program(const fs::path& here, std::string_view name) {
  std::error_code e;
  if (fs::exists(here / name, e)) return here / name;
  const auto packages = packages_with(here, name);
  if (packages.empty()) return fail(no_program(here, name));
  return packages.front() / "troupe" / "bin" / name;
}

core::result<fs::path> trainer_program(const fs::path& here, const std::string& who) {
  std::error_code e;
  if (fs::exists(here / trainer, e)) return here / trainer;
  const auto packages = packages_with(here, trainer);
  if (packages.empty()) return fail(no_program(here, trainer).in(who));
  for (const auto& folder : packages)
    if (check_torch(folder, who)) return folder / "troupe" / "bin" / trainer;
  return fail(check_torch(packages.front(), who).error());
}

core::result<void> check_torch(const fs::path& packages, const std::string& who) {
  const auto wanted = without_build(TROUPE_LIBTORCH_VERSION);
  const auto got = torch_version_in(packages / "torch");
  if (got == wanted) return {};
  return fail(error_kind::mismatch, fmt::format("{} needs torch {} in '{}', got {}: pip install 'troupe[train]'", who,
                                                wanted, packages.string(), got.empty() ? "none" : got));
}

}  // namespace troupe::apps
