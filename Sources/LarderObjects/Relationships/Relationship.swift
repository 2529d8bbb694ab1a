// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// DELETE RULES
//
// The type that refers declares the effect of a deletion. The catalog stores the rule under the
// coding keys of the path to the property. So the rule applies in every process, including one that
// does not declare the type: denying and cascading need no Swift type.
//
// A key path does not contain its property's coding key. The store finds the coding key when an
// object is saved: the box at `object[keyPath: path]` is the one that the encoder encountered at
// the coding key. A rule has an effect only once an object with the reference is stored, and by
// then the catalog contains it.

/// The delete rules of a reference from one stored type to another.
///
/// ```swift
/// static let relationships = [
///   Relationship(\Car.$parts, onDelete: .cascade),
///   Relationship(\Car.$maker, onTargetDelete: .deny),
/// ]
/// ```
///
/// References without a declared rule use the defaults: deleting the owner keeps the objects
/// referred to, and deleting an object referred to leaves the reference dangling, as in Papyrus.
/// Only a nonoptional reference denies the deletion of its object by default, because its owner
/// cannot be decoded without it.
///
/// Rules apply in every process, from the first save by a program that declares them, or its
/// `ObjectStore.prepare(_:within:progress:)`, and also to a program that declares none. A program
/// that declares another rule for the same property cannot save: raise `schemaVersion` to change or
/// drop a rule. The rules apply to `delete`, `deleteAll`, `merge` and deletions by a query, in the
/// same transaction.
public struct Relationship<Owner: Storable>: Sendable {
  /// The effect of deleting the owner on the objects referred to.
  public enum DeleteRule: String, Sendable, Hashable {
    /// Keeps the objects.
    case keep
    /// Deletes the objects as well, independent of other referrers, and applies their own rules.
    case cascade
  }

  /// The effect on the owner of deleting an object it refers to.
  public enum TargetDeleteRule: String, Sendable, Hashable {
    /// Keeps the reference, which then leads to a missing object.
    case leaveDangling
    /// Removes the reference from the owner.
    case nullify
    /// The deletion fails with ``ObjectError/Code/deletionDenied``, unless the owner is deleted as well.
    case deny
  }

  /// The effect of deleting the owner.
  public let onDelete: DeleteRule
  /// The effect of deleting an object referred to.
  public let onTargetDelete: TargetDeleteRule

  /// Whether the rules are inconsistent with the property's type.
  let isImpossible: Bool
  /// The stored name of the type referred to.
  let target: String
  let box: @Sendable (Owner) -> ObjectIdentifier

  /// Creates the rules for the reference at a key path: `\.$parts`.
  ///
  /// - Parameters:
  ///   - path: The reference.
  ///   - onDelete: The rule for the objects referred to.
  ///   - onTargetDelete: The rule for the owner. The default is ``TargetDeleteRule/deny`` for a
  ///     nonoptional reference, and ``TargetDeleteRule/leaveDangling`` for all others.
  public init<Property: Reference>(
    _ path: Path<Owner, Property>, onDelete: DeleteRule = .keep,
    onTargetDelete: TargetDeleteRule? = nil
  ) {
    let onTargetDelete = onTargetDelete ?? (Property.allowsMissingTarget ? .leaveDangling : .deny)
    self.onDelete = onDelete
    self.onTargetDelete = onTargetDelete
    isImpossible = onTargetDelete == .nullify && !Property.allowsMissingTarget
    target = Property.Target.storedName
    let property = PropertyPath(path)
    box = { ObjectIdentifier(property.value(of: $0).links.box) }
  }
}

/// The policy for the objects that are assigned to the references of a saved object.
public enum ChildPolicy: Sendable, Hashable {
  /// Saves each, replacing the stored object.
  case overwrite
  /// Saves each unless an object with its id is stored.
  case insertIfAbsent
  /// Saves none; the references are saved.
  case ignore
}
