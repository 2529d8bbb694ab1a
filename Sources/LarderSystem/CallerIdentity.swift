// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The identity of the caller of a function: its task, or its thread if it runs outside of tasks.
package enum CallerIdentity {
  /// A number that no other running task or thread of this process has, except by a collision of
  /// hashes. It is never zero.
  package static var current: UInt64 {
    let task = unsafe withUnsafeCurrentTask { task in
      unsafe task.map { unsafe UInt64(truncatingIfNeeded: $0.hashValue) }
    }
    return (task ?? OSThread.token) | 1
  }
}
