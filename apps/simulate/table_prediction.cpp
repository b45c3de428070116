#include "apps/simulate/table_prediction.hpp"

#include <cstdio>

#include "apps/base/exit_code.hpp"
#include "apps/simulate/simulate_report.hpp"
#include "hardware/evaluation.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {

int show_predictions(const table_arguments& a, output_form form) {
  const auto table = open_table(a, hardware::other_cards::refused);
  if (!table) return failed(table.error());
  const auto priced = hardware::price_samples(table->read.samples, table->stacks);
  if (!a.out.empty())
    if (const auto ok = storage::write_file_atomically(a.out, simulated_csv(*table, priced)); !ok)
      return failed(ok.error());
  const auto text = form == output_form::json ? simulated_json(*table, priced) : simulated_text(*table, priced);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
