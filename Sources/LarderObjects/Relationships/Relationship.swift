// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// RULES
//
// What happens to one object when another is deleted is declared with the type that refers, and kept in
// the catalog under the coding keys that lead to the property. So it holds for every process, also for
// one that knows nothing of the type: denying and cascading need no Swift type at all.
//
// A key path does not tell its property's coding key. It is learned when an object is saved: the box
// behind `object[keyPath: path]` is the one the encoder met at the coding key. As a rule matters only
// when an object with the reference is stored, it is in the catalog when it matters.

/// A rule for a reference from one stored type to another.
///
/// ```swift
/// static let relationships = [
///   Relationship(\Car.$parts, onDelete: .cascade),
///   Relationship(\Car.$maker, onTargetDelete: .deny),
/// ]
/// ```
///
/// References without a rule need not be declared: the owner's deletion keeps the others, and the
/// others' deletion leaves the reference dangling, as with `Papyrus`. Only a reference that is not
/// optional denies the deletion of its object by default, because its owner cannot be read without it.
///
/// Rules hold in every process, from the first save by a program that declares them, or its
/// `ObjectStore.prepare(_:within:progress:)`, also for a program that declares none. One that declares
/// another rule for the same property cannot save: raise `schemaVersion` to change or drop a rule. They hold for `delete`, `deleteAll`, `merge` and
/// deletions by a query, in the same transaction.
public struct Relationship<Owner: Storable>: Sendable {
  /// What becomes of the objects referred to when the owner is deleted.
  public enum DeleteRule: String, Sendable, Hashable {
    /// They stay.
    case keep
    /// They are deleted with it, whoever else refers to them, and so on.
    case cascade
  }

  /// What becomes of the owner when an object it refers to is deleted.
  public enum TargetDeleteRule: String, Sendable, Hashable {
    /// Its reference leads nowhere from now on, and shows it.
    case leaveDangling
    /// The reference is taken out of it.
    case nullify
    /// The deletion fails with ``ObjectError/Code/deletionDenied``, unless the owner is deleted as well.
    case deny
  }

  /// When the owner is deleted.
  public let onDelete: DeleteRule
  /// When an object referred to is deleted.
  public let onTargetDelete: TargetDeleteRule

  /// Whether the rules contradict the property's type.
  let isImpossible: Bool
  /// The stored name of the type referred to.
  let target: String
  let box: @Sendable (Owner) -> ObjectIdentifier

  /// A rule for the reference at a key path: `\.$parts`.
  ///
  /// - Parameters:
  ///   - path: The reference.
  ///   - onDelete: The rule for the objects referred to.
  ///   - onTargetDelete: The rule for the owner. By default ``TargetDeleteRule/deny`` for a reference that is
  ///     not optional, and ``TargetDeleteRule/leaveDangling`` for all others.
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

/// What is saved of the children that were assigned to an object being saved.
public enum ChildPolicy: Sendable, Hashable {
  /// Each is saved, replacing what is stored of it.
  case overwrite
  /// Each is saved unless there is one of its id already.
  case insertIfAbsent
  /// None is saved; the references are.
  case ignore
}
