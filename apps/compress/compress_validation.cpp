#include "apps/compress/compress_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/compress/compress_target.hpp"
#include "core/text.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> methods{"rtn", "gptq", "awq", "smoothquant"};

bool is_integers(std::string_view format) {
  return format == "w8a8" || (format.size() == 4 && format.starts_with("int"));
}

}  // namespace

core::result<void> check_method(const compress_arguments& a) {
  if (std::ranges::find(methods, a.method) == methods.end())
    return fail(error_kind::bad_input,
                fmt::format("--method: wanted rtn, gptq, awq or smoothquant, got '{}'", core::shown(a.method)));
  if (a.method == "rtn") return {};
  if (a.calibrate.empty())
    return fail(error_kind::bad_input,
                fmt::format("--method {} needs a text for calibration: give --calibrate FILE", a.method));
  const bool folder = a.to.starts_with(folder_prefix);
  const std::string_view format = std::string_view(a.to).substr(std::min(a.to.size(), a.to.find(':') + 1));
  if (a.method == "smoothquant" && format != "w8a8")
    return fail(error_kind::bad_input,
                fmt::format("--method smoothquant is only for {}w8a8, with integer inputs: got --to {}", folder_prefix,
                            core::shown(a.to)));
  if (a.method == "gptq" &&
      (folder ? !is_integers(format)
              : format != "q4_0" && format != "q4_1" && format != "q5_0" && format != "q5_1" && format != "q8_0"))
    return fail(
        error_kind::bad_input,
        fmt::format("--method gptq needs a format of integer codes with one scale per group ({}int2 to int8, w8a8; "
                    "{}q4_0, q4_1, q5_0, q5_1, q8_0), got --to {}",
                    folder_prefix, gguf_prefix, core::shown(a.to)));
  return {};
}

bool has_own_validation(const config::job_config& job) {
  std::error_code e;
  return job.data.validation_fraction > 0 && !job.data.sources.empty() &&
         std::ranges::all_of(job.data.sources,
                             [&](const auto& s) { return s.form == "text" && fs::exists(s.text, e); });
}

bool has_own_validation(const compress_arguments& a) {
  auto quiet = a.source;
  const auto s = open_checkpoint_at(quiet);
  if (!s) return false;
  const auto job = own_configuration(*s);
  return job && has_own_validation(*job);
}

}  // namespace troupe::apps
