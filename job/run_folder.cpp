#include "job/run_folder.hpp"

#include <utility>

#include "core/source_file.hpp"
#include "plan/schedule/text.hpp"
#include "plan/schedule/transfers.hpp"

namespace troupe::job {
namespace {

bool is_there(const std::filesystem::path& file) {
  std::error_code e;
  return std::filesystem::is_regular_file(file, e);
}

}  // namespace

core::result<std::optional<plan::model_profile>> find_profile(const std::filesystem::path& folder,
                                                              const core::model_table& table, core::dtype parameter) {
  const auto file = folder / plan::profile_file_name;
  if (folder.empty() || !is_there(file)) return std::nullopt;
  TROUPE_ASSIGN(const auto text, core::read_file(file, plan::max_profile_bytes));
  auto read = plan::read_profile(text, file.string());
  if (!read)
    return core::fail(read.error().kind, read.error().text + "; remove the file to model and measure times again");
  if (!plan::is_of(*read, table, parameter)) return std::nullopt;
  return std::move(*read);
}

std::optional<plan::found_schedule> find_search(const std::filesystem::path& folder,
                                                const plan::search_request& wanted) {
  const auto file = folder / plan::schedule_file_name, note = folder / plan::search_file_name;
  if (folder.empty() || !is_there(file) || !is_there(note)) return {};
  const auto text = core::read_file(file, plan::max_table_bytes), said = core::read_file(note, plan::max_search_bytes);
  if (!text || !said) return {};
  auto table = plan::read_table(*text, file.string());
  if (!table) return {};
  return plan::read_search(wanted, *said, plan::computations_of(std::move(*table)));
}

}  // namespace troupe::job
