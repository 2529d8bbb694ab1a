// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A simulated boot of the system for child processes: with the preload shim `boot_id` they read its
/// identifier instead of the kernel's.
package final class SystemBoot: Sendable {
  /// The environment with which a child process and its children run on this boot. It is valid for
  /// the lifetime of this object.
  package let environment: [String: String]
  // Not in memory: such a directory may refuse to run code.
  private let directory: TemporaryDirectory

  /// Builds the shim; see ``PreloadShim/isAvailable``.
  ///
  /// - Parameter identifier: As the kernel's, 36 characters.
  package init(_ identifier: String = "11111111-2222-4333-8444-555555555555") throws {
    directory = try TemporaryDirectory()
    let file = directory.appending("boot_id")
    try TestFiles.write(Array("\(identifier)\n".utf8), to: file)
    let shim = try PreloadShim("boot_id", in: directory.path)
    environment = shim.environment.merging(["BOOT_ID": file]) { $1 }
  }
}
