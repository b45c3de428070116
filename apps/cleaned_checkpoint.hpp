// A run's checkpoint with what it was compressed with made permanent: grids and masks in the weights, related modules
// cut, config.json changed along. Owns what is read for that; the choice is job/clean.hpp's, tensors are changed by
// checkpoint/convert/cut_source.hpp.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/model_description.hpp"
#include "job/clean.hpp"

namespace troupe::apps {

struct cleaned_checkpoint {
  described_checkpoint now;  ///< its run and model are the cleaned ones
  std::shared_ptr<const checkpoint::tensor_source> before;
  std::shared_ptr<const job::cleaning> done;
  uint64_t elements_before = 0, elements = 0;  ///< of weights
};

/// By the configuration that the checkpoint's run was made with. Refused: a checkpoint that does not say it, or that
/// compresses nothing, and what plan_cleaning refuses.
core::result<cleaned_checkpoint> clean(described_checkpoint from);

/// The scales of grids that weights were trained on, which their values lie on now, by the module's name.
class trained_scales {
 public:
  /// Reads the weights as they were before. Those whose rows or columns were cut have none.
  static core::result<trained_scales> of(const cleaned_checkpoint& c);
  /// Of a group of a module's elements as (out, in), for codes of so many bits; nothing where it lies on no grid, on
  /// several, or on one of more bits.
  [[nodiscard]] std::optional<float> find(const std::string& module, uint64_t first, uint64_t count,
                                          uint32_t bits) const;
  [[nodiscard]] bool empty() const { return by_module_.empty(); }

 private:
  struct grids {
    uint32_t bits = 0;
    uint64_t group_size = 0;
    std::vector<float> scales;
  };
  std::map<std::string, grids, std::less<>> by_module_;
};

/// A row for each module that was changed, and the widths that config.json has now, on the standard output.
void print_cleaning(const cleaned_checkpoint& c);

}  // namespace troupe::apps
