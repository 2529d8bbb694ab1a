// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderTesting
package import Testing

/// Whether the fault points are compiled in.
package let hasFaults = FaultPlan.isCompiledIn

/// The reason for skipping a test in builds without fault points.
package let needsFaults: Comment =
  "fault points exist only with the trait FaultInjection, as in scripts/test"

extension TestExecutable {
  /// The child process of the tests.
  package static var peer: TestExecutable {
    get throws(NotFound) { try TestExecutable("LarderPeer") }
  }

  /// The command-line tool.
  package static var tool: TestExecutable {
    get throws(NotFound) { try TestExecutable("larder") }
  }
}
