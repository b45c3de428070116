// Moves bytes of transfers between processes on several machines, over one TLS connection to each peer, authenticated
// by the secret of the term (time with the same processes). A process is identified by its place, its number in the
// job. Owns the thread that reads and writes, the port, and the set of connections; leaves the transfers on one
// connection to data_edge.hpp.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "fabric/wire/byte_mover.hpp"
#include "net/data_edge.hpp"
#include "net/term_secret.hpp"

namespace troupe::net {

struct mover_setup {
  term_key key;
  std::string listen_at = "*";  ///< address of this machine to listen at; the system chooses the port
};
struct mover_peer {
  std::string host;
  uint16_t port = 0;
};

class tls_mover final : public fabric::byte_mover {
 public:
  using lost = std::function<void(uint32_t place, const core::error&)>;

  /// Creates a mover that listens. Errors: bad_input, limit.
  static core::result<std::unique_ptr<tls_mover>> open(mover_setup setup);
  /// Stops the mover; transfers in progress fail with the error `stopped`.
  ~tls_mover() override;
  tls_mover(const tls_mover&) = delete;
  tls_mover& operator=(const tls_mover&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  /// Waits until this process is connected to all processes in `peers`, a map by process number. This process connects
  /// to processes with lower numbers; processes with higher numbers connect to this one. Errors: peer_lost, if a
  /// process is not connected within `within_ns` or its connection was lost; mismatch, if a process refuses the secret;
  /// the error that was passed to `stop`.
  core::result<void> connect(const std::map<uint32_t, mover_peer>& peers, int64_t within_ns = 30'000'000'000);
  /// Sets the function that is called when the connection to a process is lost: on the mover's thread, after all
  /// transfers with that process have ended. Must be called before `connect`.
  void on_lost(lost tell) { listeners_.lost = std::move(tell); }

  void send(uint32_t place, const fabric::transfer_name& name, std::span<const std::byte> bytes,
            fabric::transfer_end tell) override;
  void receive(uint32_t place, const fabric::transfer_name& name, std::span<std::byte> bytes,
               fabric::transfer_end tell) override;
  void note(uint32_t place, std::string text) override;
  void on_note(std::function<void(uint32_t from, std::string_view text)> hear) override {
    listeners_.note = std::move(hear);
  }
  void stop(const core::error& why) override;
  [[nodiscard]] fabric::moved_bytes moved(uint32_t place) const override;
  [[nodiscard]] int64_t receiving_ns(uint32_t place) const override;

 private:
  tls_mover(mover_setup setup, std::unique_ptr<io_loop> loop);
  /// Returns the connection to the process with number `place`; null, with the reason in `why`, if there is none or the
  /// mover is stopped.
  std::shared_ptr<data_edge> edge_to(uint32_t place, core::error& why) const;
  void join(uint32_t place, connection c);
  void fail(uint32_t place, core::error why);

  std::shared_ptr<const term_key> key_;
  /// listeners_: callbacks that the mover's user has set. edge_listeners_: callbacks for the connections, which call
  /// listeners_.
  data_edge::listeners listeners_, edge_listeners_;
  uint16_t port_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable joined_;
  std::map<uint32_t, std::shared_ptr<data_edge>> edges_;
  /// [number of a process]: reason why the connection to it could not be made or was lost
  std::map<uint32_t, core::error> failures_;
  std::optional<core::error> stopped_;
  std::mutex stopping_;

  std::unique_ptr<io_loop> loop_;
  std::unique_ptr<connector> connector_;
};

}  // namespace troupe::net
