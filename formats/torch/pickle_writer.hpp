// Writes pickles of protocol 2, opcode by opcode. Owns the pickle's bytes; the caller ensures that the calls form one
// value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::formats {

/// Writes opcodes that push values onto the stack of Python's unpickler, in the order of the calls. For a container,
/// begin it, push its members, then end it.
class pickle_writer {
 public:
  pickle_writer();

  void none();
  void boolean(bool value);
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view utf8);  ///< pushes a str; `utf8` must be shorter than 4 GiB

  /// Pushes the object `name` of `module`, which Python imports. With weights_only, torch.load accepts only a fixed set
  /// of such names.
  void global(std::string_view module, std::string_view name);

  void empty_dict();
  void empty_list();
  /// Pushes a mark, after which members of a container are pushed. end_tuple() makes these members a tuple; end_items()
  /// and end_pairs() put them into the list or dict below the mark.
  void mark();
  void end_tuple();
  void end_items();
  void end_pairs();

  void call();           ///< replaces the global and the tuple of arguments on top by the result of the call
  void make();           ///< replaces the class and the tuple of arguments on top by a new object
  void set_state();      ///< removes the value on top and passes it to __setstate__ of the object below it
  void persistent_id();  ///< replaces the tuple on top, a persistent id, by the object with this id

  /// Ends the pickle and returns its bytes; the writer must not be used afterwards.
  std::string finish();

 private:
  void number(uint64_t value, int bytes);
  std::string out_;
};

}  // namespace troupe::formats
