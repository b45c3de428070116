// Opens a table of measurements with the hardware that prices its rows, for the commands that read such tables.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"
#include "hardware/table.hpp"

namespace troupe::apps {

/// Arguments of a command that reads a table.
struct table_arguments {
  std::string table;                  ///< path of a CSV file
  std::vector<std::string> hardware;  ///< names of stacks or cards, or paths of YAML files
  std::string out;                    ///< file to write; empty: none
};

struct measured_table {
  std::string file;
  std::string form;  ///< hardware::table_form::name
  std::vector<hardware::stack> stacks;
  hardware::read_table read;
};

/// Reads the table and the stacks; refused as hardware::read_samples and hardware::choose_stacks do.
core::result<measured_table> open_table(const table_arguments& a, hardware::other_cards others);

/// Returns the choices of --hardware for help and completion: "{a100,...,FILE.yaml}".
std::string hardware_choices();

}  // namespace troupe::apps
