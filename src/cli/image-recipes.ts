/** The images that `sandkeep image build` makes from Debian's packages, without a Dockerfile. */

interface Recipe {
  /** what the command calls it */
  operand: string;
  /** default name of the image */
  name: string;
  /** Debian packages besides those that every sandbox has */
  packages: readonly string[];
}

export const recipes: readonly Recipe[] = [
  { operand: "debian", name: "debian", packages: [] },
  {
    operand: "code-interpreter",
    // The template that clients of the interpreter ask for.
    name: "code-interpreter-v1",
    packages: [
      "python3-ipykernel",
      "python3-matplotlib",
      "python3-numpy",
      "python3-pandas",
      "python3-pil",
      "python3-openpyxl",
      "python3-requests",
      "python3-bs4",
    ],
  },
];

export function isRecipe(operand: string | undefined): boolean {
  return recipes.some((recipe) => recipe.operand === operand);
}
