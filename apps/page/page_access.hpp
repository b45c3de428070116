// What a run's page needs of its configuration before it is served: the token, the certificate, a free port. Knows
// nothing of runs, so that the program that starts processes refuses what the one that leads would.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "apps/page/secure_channel.hpp"
#include "config/sections/cluster_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Errors: bad_input for a file that others can read, and for what is no token.
core::result<std::string> read_page_token(const std::filesystem::path& file);
/// Through TLS beyond loopback, and wherever the page has a key of its own. Errors: bad_input.
core::result<std::unique_ptr<channel_maker>> page_channels(const config::cluster_section& c,
                                                           const config::page_place& at);
/// All of the above, and that the port is free; nothing is left open. Nothing to check without a page.
core::result<void> check_page(const config::cluster_section& c);

}  // namespace troupe::apps
