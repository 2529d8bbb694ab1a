// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting

/// The executable of this module, to start more processes of it.
///
/// It is found next to the running program. That is not always the executable itself: tests run the stress tool's
/// rounds of damage in their own process.
enum PeerExecutable {
  static var path: String {
    get throws(TestExecutable.NotFound) { try TestExecutable("LarderPeer").path }
  }
}
