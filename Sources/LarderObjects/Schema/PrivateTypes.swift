// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import Synchronization

// PRIVATE TYPES
//
// Two private or local types of one module may have one name, and no process knows the file that
// distinguishes them. With a name made from it, each would replace the other's objects, also if the two are
// in two programs or in two builds of one. So the default name of such a type is refused where the type is
// used, whether or not another one is known. A name that is declared is accepted, also with the text of the
// default one, under which an earlier version of the program may have stored objects.

/// The names under which types are stored that declare none.
///
/// The names of private and local types are recognised when they are made, because a declared name may have
/// the same text.
package enum DefaultTypeName {
  private final class Probe: Sendable {
    let isAmbiguous = Atomic<Bool>(false)
  }

  @TaskLocal private static var probe: Probe?

  /// Returns the default name of a type.
  package static func of(_ type: Any.Type) -> String {
    if let probe, privateContext(of: type) != nil {
      probe.isAmbiguous.store(true, ordering: .relaxed)
    }
    return stableTypeName(type)
  }

  /// Returns the name of a type, and whether it is made from the default name of a private or local one.
  ///
  /// - Parameter name: The property with the name.
  static func resolve(_ name: () -> String) -> (name: String, isAmbiguous: Bool) {
    let probe = Probe()
    let name = $probe.withValue(probe) { name() }
    return (name, probe.isAmbiguous.load(ordering: .relaxed))
  }
}

extension ObjectTypeDescriptor {
  /// Verifies that the type's name identifies it in all programs.
  ///
  /// - Throws: ``ObjectError/Code/invalidSchema`` if it is the default name of a private or local type.
  func requireOwnName() throws {
    guard isPrivatelyNamed else { return }
    throw ObjectError(
      .invalidSchema, type: name,
      "The type is private or local and declares no name, so another type of this name would have the same "
        + "objects. Add static let storedName = \"\(name)\" to its declaration (for an Archivable: "
        + "archiveName), with a name that no other type has.")
  }
}
