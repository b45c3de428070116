// A host's own model in a run. Written when the session is opened.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace troupe::models {
class prepared_modules;
}

namespace troupe::actors {

struct host_model;

struct host_modules {
  std::shared_ptr<const host_model> model;              ///< null: the configuration's model is trained
  std::shared_ptr<models::prepared_modules> instances;  ///< instances of `model`, until the actors take them over
  std::vector<std::string> outputs{};                   ///< names of the outputs of the model's last unit
  std::string layers{};   ///< report: which layers are cut or replaced, which are not, and why
  std::string changes{};  ///< report of the changes that passes over units made, a line for each
};

}  // namespace troupe::actors
