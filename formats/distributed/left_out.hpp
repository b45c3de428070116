// Collects the entries of a folder of torch.distributed.checkpoint that are not read, and the reasons. Owns the remarks
// about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

class left_out_entries {
 public:
  /// Records an optimizer state that belongs to no parameter and is therefore not imported.
  void add_state(const std::string& name);
  /// Records an optimizer state of another shape than its parameter, which is not imported.
  void add_misfit(const std::string& name, const std::vector<int64_t>& got, const std::vector<int64_t>& wanted);
  /// Records a tensor whose dtype Troupe does not read.
  void add_unread(std::string_view name, std::string_view type);
  /// Leaves out all states of the optimizer, because a part of them would be worse than none. The remark states the
  /// reason `why` of the first call.
  void give_up_states(std::string why);
  [[nodiscard]] bool keeps_states() const { return !why_no_states_; }

  /// Adds to `remarks` one remark for each reason why entries were left out.
  void say(std::vector<std::string>& remarks) const;
  [[nodiscard]] const std::vector<unread_tensor>& unread() const { return unread_; }

 private:
  size_t states_ = 0, misfits_ = 0;
  std::string first_state_, first_misfit_;
  std::vector<unread_tensor> unread_;
  std::optional<std::string> why_no_states_;
};

}  // namespace troupe::formats
