// Pickles of protocol 2, opcode by opcode. Owns the text; that it makes one value is the caller's business.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::checkpoint {

/// Values go onto Python's stack in the order of the calls. A container: begin it, push its members, end it.
class pickle_writer {
 public:
  pickle_writer();

  void none();
  void boolean(bool value);
  void integer(int64_t value);
  void real(double value);
  void text(std::string_view utf8);  ///< below 4 GiB

  /// A name for Python to import; the only ones that torch takes with weights_only are its own.
  void global(std::string_view module, std::string_view name);

  void empty_dict();
  void empty_list();
  /// Opens a run of members, which end_tuple() makes a tuple, and end_items() or end_pairs() puts into the list or
  /// dict that lies below.
  void mark();
  void end_tuple();
  void end_items();
  void end_pairs();

  void call();           ///< the global and the tuple on top of it
  void make();           ///< an object of the class and with the arguments (a tuple) on top of it
  void set_state();      ///< the value on top becomes the attributes of the object below it
  void persistent_id();  ///< the tuple on top

  /// Ends the pickle; the writer is of no use afterwards.
  std::string finish();

 private:
  void number(uint64_t value, int bytes);
  std::string out_;
};

}  // namespace troupe::checkpoint
