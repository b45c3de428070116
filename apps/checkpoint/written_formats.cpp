#include "apps/checkpoint/written_formats.hpp"

namespace troupe::apps {

void add_description_options(std::vector<conversion_option>& to, source_arguments& source, std::string& model_config) {
  to.push_back({.name = "--model-config",
                .into = &model_config,
                .help = "Hugging Face's config.json of the model; by default what the checkpoint says of it"});
  to.push_back(
      {.name = "--ignore-key",
       .into = &source.ignored_keys,
       .help = "a key of the model's config.json that is read as if it were not there; may be given several times",
       .values = "NAME",
       .is_shared = true});
}

conversion_option average_option(source_arguments& source) {
  return {.name = "--ema",
          .into = &source.averaged,
          .help = "write the averages of the weights that a run with the section ema keeps, in place of the weights"};
}

void add_model_options(std::vector<conversion_option>& to, conversion_arguments& a) {
  add_description_options(to, a.source, a.model_config);
  to.push_back(
      {.name = "--allow-overflow",
       .into = &a.source.allow_overflow,
       .help = "clamp values outside the range of the written type to its largest, and count them; without it they are "
               "refused",
       .is_shared = true});
}

}  // namespace troupe::apps
