#include "apps/simulate/measured_table.hpp"

#include "core/source_file.hpp"
#include "hardware/catalogue.hpp"

namespace troupe::apps {

core::result<measured_table> open_table(const table_arguments& a, hardware::other_cards others) {
  measured_table out;
  out.file = a.table;
  TROUPE_ASSIGN(const auto text, core::read_file(a.table, hardware::most_csv_bytes));
  TROUPE_ASSIGN(const auto file, hardware::read_csv(text, a.table));
  TROUPE_ASSIGN(const auto* const form, hardware::form_of(file));
  out.form = form->name;
  TROUPE_ASSIGN(out.stacks, hardware::choose_stacks(a.hardware, form->name));
  TROUPE_ASSIGN(out.read, hardware::read_samples(file, *form, out.stacks, others));
  return out;
}

std::string hardware_choices() {
  std::string out = "{";
  for (const auto& file : hardware::embedded_files()) out.append(file.name).append(",");
  return out + "FILE.yaml}";
}

}  // namespace troupe::apps
