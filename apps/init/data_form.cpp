#include "apps/init/data_form.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "apps/init/data_check.hpp"
#include "core/error.hpp"
#include "data/expand.hpp"
#include "data/formats/files.hpp"
#include "data/formats/objects.hpp"
#include "data/scratch_file.hpp"

namespace troupe::apps {
namespace {

core::sample_form form_of_row(const nlohmann::ordered_json& row) {
  const auto has = [&](const char* column) {
    return row.is_object() && row.contains(column) && !row[column].is_null();
  };
  if (has("messages") || has("conversations")) return core::sample_form::chat;
  if ((has("prompt") && has("completion")) || (has("instruction") && has("output"))) return core::sample_form::instruct;
  return has("input_ids") ? core::sample_form::labelled : core::sample_form::text;
}

}  // namespace

core::sample_form form_of_data(const std::filesystem::path& path) {
  auto out = core::sample_form::text;
  const auto listed = data::source_files(path);
  if (!listed || listed->files.empty()) return out;
  const auto& file = listed->files.front();
  const auto kind = data::kind_of(file);
  if (kind == data::source_kind::array) return core::sample_form::labelled;
  if (kind != data::source_kind::json_lines && kind != data::source_kind::parquet && kind != data::source_kind::arrow)
    return out;
  std::error_code e;
  auto folder = std::filesystem::temp_directory_path(e);
  if (e) folder = ".";
  data::scratch_file expanded;
  const auto content = data::open_sample_file(file, read_text_bytes_max, expanded, folder);
  if (!content) return out;
  uint64_t left = read_text_bytes_max;
  const auto take = [&](const nlohmann::ordered_json& row, const std::string&, uint64_t) -> core::result<void> {
    out = form_of_row(row);
    return fail(error_kind::stopped, "the first row is enough");
  };
  (void)data::read_objects(kind, *content,
                           {"messages", "conversations", "prompt", "completion", "instruction", "output", "input_ids"},
                           left, take);
  return out;
}

}  // namespace troupe::apps
