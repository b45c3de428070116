#include "checkpoint/native_read.hpp"

#include "checkpoint/tensor_source.hpp"

namespace troupe::checkpoint {

core::result<read_report> read_pieces(file_system& files, const checkpoint_folder& from, const load_plan& plan,
                                      std::span<std::byte> destination, const read_options& options) {
  return read_pieces(files, source_of(from), plan, destination, options);
}

}  // namespace troupe::checkpoint
