// The host program's own model as a run uses it. Written when the session is opened.
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
  std::shared_ptr<const host_model> model;  ///< the host program's model; null: the configuration names the model
  std::shared_ptr<models::prepared_modules> instances;  ///< instances of `model`, until the ranks' actors get them
  std::vector<std::string> outputs{};                   ///< names of the outputs of the model's last unit
  std::string layers{};   ///< report of the layers that are split over tensor ranks or replaced, and why others are not
  std::string changes{};  ///< report of the changes that passes over units made, one line for each
};

}  // namespace troupe::actors
